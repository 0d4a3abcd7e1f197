/**
 * The page: all streams, or the one that the address names.
 * @module
 */
import { letHostFollow } from "./links.js";
import { showList } from "./list.js";
import { showStream } from "./stream.js";

letHostFollow();
const name = new URLSearchParams(window.location.search).get("stream");
if (name) showStream(name);
else showList();
