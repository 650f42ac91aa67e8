"""Every maximum and time of the client, its unit and its reason."""

OPERATION_ID_BYTES_MAX = 255
"""The gateway's own: an operation id is 1 to 255 visible ASCII characters."""

VALUE_BYTES_MAX = 1024 * 1024 - 4096
"""The largest value of a receipt: a mebibyte is the largest body that any gateway takes, less what stands around it. A
larger one is not tried: a connection that is cut in the middle would hide why.
"""

DELIVERIES_MAX = 3
"""How often one request is handed over. The gateway owns the attempts of the write; this is for a lost connection and a
restart.
"""

PAUSE_MIN_MS, PAUSE_MAX_MS = 50, 500
"""Between deliveries, by chance, so that callers who lost one gateway do not come back together."""

RETRY_AFTER_MAX_MS = 2_000
"""The longest that an answer may ask to be waited for. A caller that wants to wait longer does so itself."""

SETTLE_FOR_MS = 30_000
"""How long a settlement is delivered again. It is evidence of what has happened and safe to repeat; a gateway restarts
within this.
"""

GIVE_UP_WITHIN_MS = 2_000
"""How long somebody who wants to stop (Ctrl-C, a cancelled task) waits for what must still be said."""

CONNECT_WITHIN_S = 5.0
"""For a connection; also for a place among `CONNECTIONS_MAX`, times six."""

ANSWER_WITHIN_S = 30.0
"""For the answer to a request that waits for nothing: the gateway waits for its ledger, at the most, this long."""

WAIT_DEFAULT_S = 60.0
"""How long a gateway may make a call wait that does not say how long it wants to."""

WAIT_MAX_MS = 60_000
"""The longest wait of one request. Longer ones are several requests."""

CONNECTIONS_MAX = 256
"""At once. A call that waits for its result holds one."""

KEPT_ALIVE_S = 20.0
"""How long an idle connection is kept: less than the 30 s after which a gateway closes it, so that no call meets one
half closed.
"""

SETTLE_WITHIN_MAX_MS = 15 * 60 * 1000
"""The gateway's own. Heartbeats keep a claim for longer."""

LOOKUPS_MAX = 200
"""Due lookups that the gateway lists at once."""

FOUND_MAX = 32
"""Things that one report may name. One is the effect; two are a disagreement."""
