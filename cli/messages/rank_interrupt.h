/* rank_interrupt.h - SIGINT and SIGTERM to a rank: to one of them, or from the launcher to all.
 *
 * Before the training they end all ranks of the machine, and rank 0 prints one sentence. In a training they ask to stop: the
 * ranks agree at the end of the step, save, and rank 0 prints one sentence. The launcher sends SIGKILL soon after SIGTERM. If
 * the step or the save has not ended shortly before that, rank 0 prints which state is left. A second signal of the same kind
 * ends the rank.
 */
#pragma once

#include <stdbool.h>

#include "executor/ranks/communicator.h"

/* Handles signals of this rank from here on. Called when the ranks are joined, whose communicator must stay valid. */
void rank_interrupt_begin(const mp_communicator *world);
/* True from rank_interrupt_begin on. */
bool rank_interrupt_is_on(void);
/* From here on a signal asks to stop. The sentence, which must stay valid, is printed if the launcher's SIGKILL is near. NULL:
 * nothing is lost then. */
void rank_interrupt_late(const char *sentence);
bool rank_interrupt_asked(void);
/* Returns the exit status of a training that was stopped before it had an answer: 130, or 143 after SIGTERM. */
int rank_interrupt_status(void);
/* From here on signals are ignored: all work is done, or its failure is known. */
void rank_interrupt_end(void);
