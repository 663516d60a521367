/* exhausted.h - ends the program with a message if memory runs out in a library that cannot report it. */
#pragma once

/* Installs handlers. From then on, the program ends with a message and EXIT_NO in three cases: an allocation fails inside
 * jansson; a library ends the program because memory ran out (oneDNN by std::terminate, GLib by a trap); or a library crashes
 * (Graphviz, oneDNN). */
void exhausted_catch(void);
