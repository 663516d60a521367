/* exchanges.h - exchanges between ranks outside of the plan: facts to compare, texts, parts of tensors, and failures.
 *
 * Another rank may run a different program, or another version of this one. If the network library can report the length of a
 * message, the length is checked before the message is received. The length of a text is checked before memory is allocated
 * for it. */
#pragma once

#include "executor/ranks/collectives.h"

enum { MP_TAG_OF_EXCHANGES = MP_COMMUNICATOR_TAGS - 1 };

/* Tests one pending message; `what` names the exchange in messages. MP_IO: the message has an unexpected length, so its sender
 * runs different code; the error names the sender. */
mp_status mp_awaited_test(mp_communicator *world, mp_awaited *pending, bool *done, const char *what, mp_error *err);

/* Copies `bytes` bytes at `own` of every rank to all[rank * bytes] on every rank. Waits for the result. MP_IO. */
mp_status mp_communicator_exchange(mp_communicator *world, const void *own, int64_t bytes, void *all, double timeout,
                                   const char *what, mp_error *err);
enum { MP_TEXT_BYTES = 1 << 28 };
/* Collects the texts of all ranks on rank 0: texts[r], allocated in `pool`; the entry of rank 0 is `own`. On other ranks texts
 * is unused. MP_IO: also if a text is longer than MP_TEXT_BYTES or is not terminated. MP_NOMEM. */
mp_status mp_communicator_collect(mp_communicator *world, const char *own, const char **texts, mp_pool *pool, double timeout,
                                  const char *what, mp_error *err);
/* Sends the text of the first rank of each block of `block` consecutive ranks to the others of the block: *text, allocated in
 * `pool`. On the first rank of a block *text is unchanged. Errors: as mp_communicator_collect. */
mp_status mp_communicator_hand_out(mp_communicator *world, int block, const char **text, mp_pool *pool, double timeout,
                                   const char *what, mp_error *err);
/* Gathers the parts of a tensor from the ranks of this rank's group in `whole` on one rank. `root` is the number of the
 * receiving rank in the world; -1: each rank of the group receives the tensor. Ranks that do not receive need no `whole`. This
 * rank's own part is not copied. Waits for the result. MP_IO. */
mp_status mp_communicator_gather(mp_communicator *world, const mp_process_group *group, int root, const mp_shard_view *piece,
                                 int64_t element_bytes, double timeout, const char *what, mp_error *err);
enum { MP_MEETING_BYTES = 256 };
/* Waits until all ranks call this function, and copies `bytes` bytes of rank 0's `word` to all ranks; bytes <=
 * MP_MEETING_BYTES. Returns `own`, this rank's status so far, if it is a failure, else MP_IO if another rank has failed.
 * Errors: as mp_communicator_exchange. */
mp_status mp_communicator_meet(mp_communicator *world, mp_status own, void *word, int64_t bytes, double timeout,
                               const char *what, mp_error *err);
