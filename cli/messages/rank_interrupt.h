/* rank_interrupt.h - SIGINT and SIGTERM sent to a rank, or by the launcher to all ranks.
 *
 * Before the training, these signals end all ranks of the machine, and rank 0 prints one message. During a training, they
 * request a stop: the ranks agree at the end of the step and save, and rank 0 prints one message. The launcher sends SIGKILL
 * soon after SIGTERM. If the step or the save is not finished shortly before that, rank 0 prints which saved state remains. A
 * second signal of the same kind ends the rank.
 */
#pragma once

#include <stdbool.h>

#include "executor/ranks/communicator.h"

/* Installs the signal handlers of this rank. Called when the ranks have joined. Their communicator must remain valid. */
void rank_interrupt_begin(const mp_communicator *world);
/* True from rank_interrupt_begin on. */
bool rank_interrupt_is_on(void);
/* From this call on, a signal requests a stop. If the launcher's SIGKILL is near, the sentence is printed; it must remain
 * valid. NULL: nothing would be lost, so nothing is printed. */
void rank_interrupt_late(const char *sentence);
bool rank_interrupt_asked(void);
/* Returns the exit status of a training stopped before it had an answer: 130, or 143 after SIGTERM. */
int rank_interrupt_status(void);
/* From this call on, signals are ignored: all work is done, or its failure has been reported. */
void rank_interrupt_end(void);
