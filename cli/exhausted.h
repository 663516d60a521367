/* exhausted.h - ends the program with a message if memory runs out inside a library that cannot report it. */
#pragma once

/* From this call on, the program ends with a message and EXIT_NO in three cases: an allocation fails inside jansson; a library
 * out of memory ends the program (oneDNN by std::terminate, GLib by a trap); or a library crashes (Graphviz, oneDNN). */
void exhausted_catch(void);
