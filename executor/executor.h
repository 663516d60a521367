/* executor.h - what running a training step is made of. So far: the random numbers that a recomputed operator draws again. */
#ifndef EXECUTOR_EXECUTOR_H
#define EXECUTOR_EXECUTOR_H

#include "executor/philox.h"

#endif
