/* exchanges.h - what ranks tell each other outside of a plan's collectives: facts, texts, parts of tensors, how it went.
 *
 * Others may be another program, or another version of this one: the length of a message is looked at before it is received,
 * where the library can look, and a text's before there is memory for it.
 */
#pragma once

#include "executor/ranks/collectives.h"

enum { MP_TAG_OF_EXCHANGES = MP_COMMUNICATOR_TAGS - 1 };

/* Tests one message of what `what` names. MP_IO: it has another length than was to come, so its sender does not do what this
 * rank does; the sentence names it. */
mp_status mp_awaited_test(mp_communicator *world, mp_awaited *pending, bool *done, const char *what, mp_error *err);

/* Gives every rank what each of them has: `bytes` from `own` to all[rank * bytes]. Waits for it. MP_IO. */
mp_status mp_communicator_exchange(mp_communicator *world, const void *own, int64_t bytes, void *all, double timeout,
                                   const char *what, mp_error *err);
enum { MP_TEXT_BYTES = 1 << 28 };
/* Gives rank 0 the text that each of the others has: texts[r], in memory of `pool`; its own is `own`. Elsewhere texts are not
 * looked at. MP_IO, also where a rank says that its text has more than MP_TEXT_BYTES, or sends what is none. MP_NOMEM. */
mp_status mp_communicator_collect(mp_communicator *world, const char *own, const char **texts, mp_pool *pool, double timeout,
                                  const char *what, mp_error *err);
/* The other way round, within each block of so many ranks that follow each other: gives them the text of the first of them, as
 * *text in memory of `pool`; that of the first stays its own. Errors as above. */
mp_status mp_communicator_hand_out(mp_communicator *world, int block, const char **text, mp_pool *pool, double timeout,
                                   const char *what, mp_error *err);
/* Brings the parts that the ranks of this one's team have of a tensor to one of them, by its number in the world, or with -1 to
 * each: to their places in `whole`, which others need not have; the own part is not moved. Waits for it. MP_IO. */
mp_status mp_communicator_gather(mp_communicator *world, const mp_team *team, int root, const mp_piece *piece,
                                 int64_t element_bytes, double timeout, const char *what, mp_error *err);
enum { MP_MEETING_BYTES = 256 };
/* Waits until all ranks have come here, and tells them what rank 0 has: `bytes` of `word`, at most MP_MEETING_BYTES. Returns
 * `own`, this rank's failure so far, or else MP_IO where another one has failed. MP_IO, as mp_communicator_exchange. */
mp_status mp_communicator_meet(mp_communicator *world, mp_status own, void *word, int64_t bytes, double timeout,
                               const char *what, mp_error *err);
