/* exhausted.h - ends the program with a sentence if memory runs out inside a library that cannot report it. */
#pragma once

/* From here on the program ends with a sentence and EXIT_NO when an allocation fails inside jansson, or when a library
 * without memory ends the program (oneDNN by std::terminate, GLib by a trap) or crashes (Graphviz, oneDNN). */
void exhausted_catch(void);
