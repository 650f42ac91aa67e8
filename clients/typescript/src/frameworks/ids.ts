/** Where a framework's calls get their operation ids from. */

import { OperationIds, type OperationIdsState } from "../ids.js";

/** Mints and keeps operation ids: {@link KeptIds}, or the application's own. */
export interface Ids {
  /** The id of this call in this run: stored before it is given, and the same ever after. */
  of(tool: string, args: object): string | Promise<string>;
}

/**
 * The operation ids of one run, kept by the application beside the rest of the run's state.
 *
 *     const ids = new KeptIds(chat.operationIds, (state) => database.update(chat.id, { operationIds: state }));
 *
 * What belongs together is one run: a conversation, an order, a row of work. Within it an equal call is the same intention, whatever
 * the model calls it. Load the state again after a crash, and begin with an empty one for another piece of work.
 */
export class KeptIds implements Ids {
  readonly #ids: OperationIds;
  readonly #save: (state: OperationIdsState) => unknown;
  #isSaved = true;
  #saving: Promise<void> = Promise.resolve();

  /** `save` stores the state durably, and is awaited before an id is given. Calls that run at one time never save at one time. */
  constructor(state: OperationIdsState | undefined, save: (state: OperationIdsState) => unknown) {
    this.#ids = new OperationIds(state);
    this.#save = save;
  }

  /** @throws InvalidJson for arguments that are no strict JSON, and what `save` throws: the id is not stored, so nothing is called. */
  async of(tool: string, args: object): Promise<string> {
    const known = Object.keys(this.#ids.state).length;
    const id = this.#ids.of(tool, args);
    if (Object.keys(this.#ids.state).length > known) this.#isSaved = false;
    return this.#kept(id);
  }

  /** A new id for a call that was made before and is meant once more. Never for a repetition of the first. */
  async second(tool: string, args: object): Promise<string> {
    const id = this.#ids.second(tool, args);
    this.#isSaved = false;
    return this.#kept(id);
  }

  /** Behind whoever is saving now, since that may fail: an id is given once a save that has it in it has ended well. */
  async #kept(id: string): Promise<string> {
    this.#saving = this.#saving.catch(() => undefined).then(() => this.#saveIfNeeded());
    await this.#saving;
    return id;
  }

  async #saveIfNeeded(): Promise<void> {
    if (this.#isSaved) return;
    this.#isSaved = true;
    try {
      await this.#save(this.#ids.state);
    } catch (error) {
      this.#isSaved = false;
      throw error;
    }
  }
}
