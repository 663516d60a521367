/* graphviz_work.h - while Graphviz works. It, and the libraries that it draws with, do not look whether they got memory:
 * without any they crash, in threads of theirs too, and say nothing. */
#ifndef FORMATS_GRAPHVIZ_WORK_H
#define FORMATS_GRAPHVIZ_WORK_H

#include <stdatomic.h>

/* In how many calls of Graphviz this program is: for one that catches signals. */
extern atomic_int mp_graphviz_works;

#endif
