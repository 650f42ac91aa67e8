// Loaded before a server (node --require): kills it from within, at the moment that a test wants.
//
// CRASH names a file. While it is there, the next file that the server puts in place is its last: with the word `after` in the file it
// dies when the new contents are there, and its answer is lost; with `before` it dies just before.

"use strict";

const fs = require("node:fs");

const rename = fs.promises.rename;
const moment = () => (fs.existsSync(process.env.CRASH) ? fs.readFileSync(process.env.CRASH, "utf8") : undefined);

function die() {
  fs.unlinkSync(process.env.CRASH);
  process.kill(process.pid, "SIGKILL");
}

fs.promises.rename = async (...paths) => {
  if (moment() === "before") die();
  await rename(...paths);
  if (moment() === "after") die();
};
