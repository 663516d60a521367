/* library_work.c - the count of calls. */
#include "formats/base/library_work.h"

atomic_int mp_library_works;
