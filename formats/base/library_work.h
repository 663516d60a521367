/* library_work.h - while a library works that does not look whether it got memory: Graphviz with what it draws with, oneDNN
 * while it prepares. Without any they crash, in threads of theirs too, and say nothing. */
#pragma once

#include <stdatomic.h>

/* In how many such calls this program is: for one that catches signals. */
extern atomic_int mp_library_works;
