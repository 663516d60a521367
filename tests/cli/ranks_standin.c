/* ranks_standin.c - a communicator module with a single process, for tests without MPI. */
#include "executor/ranks/communicator.h"

static mp_communicator alone;

static void leave(mp_communicator *self)
{
    (void)self;
}

mp_module_join mp_module_communicator;
mp_status mp_module_communicator(mp_communicator **out, mp_error *err)
{
    (void)err;
    alone = (mp_communicator){.name = "nobody", .n = 1, .close = leave};
    *out = &alone;
    return MP_OK;
}
