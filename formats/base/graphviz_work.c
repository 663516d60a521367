/* graphviz_work.c - the count of calls. */
#include "formats/base/graphviz_work.h"

atomic_int mp_graphviz_works;
