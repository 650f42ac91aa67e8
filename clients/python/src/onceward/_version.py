"""Which client this is. Gateways see it as `User-Agent`."""

VERSION = "0.1.0"
