/* exhausted.h - memory that runs out inside a library that has no way to say so. */
#pragma once

/* From here on the program ends with a sentence and EXIT_NO where jansson gets no memory, and where a library ends the program
 * (oneDNN by std::terminate, GLib by a trap) or crashes (Graphviz, oneDNN), which they do when they get none. */
void exhausted_catch(void);
