/* rank_interrupt.h - handles SIGINT and SIGTERM in a rank of a training with several processes. The launcher may send these
 * signals to all ranks.
 *
 * Before the training, these signals end all ranks of the machine, and rank 0 prints one message. During a training, they
 * request a stop: at the end of the step the ranks agree and save, and rank 0 prints one message. The launcher sends SIGKILL
 * soon after SIGTERM. If the step or the save would not finish before SIGKILL, rank 0 prints which saved state remains. A
 * second signal of the same kind ends the rank (signal_order.h). */
#pragma once

#include <stdbool.h>

#include "executor/ranks/communicator.h"

/* Installs the signal handlers of this rank. Called after the ranks have joined. The communicator must remain valid. */
void rank_interrupt_begin(const mp_communicator *world);
/* True from rank_interrupt_begin on. */
bool rank_interrupt_is_on(void);
/* From this call on, a signal requests a stop. If the ranks have not stopped shortly before the launcher's SIGKILL, rank 0
 * prints `sentence`, which must remain valid. NULL: rank 0 prints nothing, because no work would be lost. */
void rank_interrupt_late(const char *sentence);
bool rank_interrupt_asked(void);
/* Returns the exit status of a training that was stopped before it had an answer: 130, or 143 after SIGTERM. */
int rank_interrupt_status(void);
/* From this call on, signals are ignored. Called when all work is done, or when its failure has been reported. */
void rank_interrupt_end(void);
