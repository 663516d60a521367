/* interrupt.h - handling of Ctrl-C and SIGTERM. Normally they end the program at once, with a message. While work runs that can
 * stop with a result, the first signal requests a stop, and a terminal shows a confirmation. A second signal of the same kind
 * ends the program (signal_order.h). */
#pragma once

#include <stdbool.h>

/* Installs the handlers. Must be called first in main. From then on both signals end the program with a message and the exit
 * status of interrupt_status(), except signals that were ignored when the program started. */
void interrupt_begin(void);
/* From interrupt_catch until interrupt_release, SIGINT only requests a stop; with `term`, so does SIGTERM. `quiet`: the handler
 * prints no message. The functions below do nothing in a rank of a training with several processes, which has its own handlers
 * (rank_interrupt.h).
 */
void interrupt_catch(bool term, bool quiet);
void interrupt_release(void);
/* True if a signal has requested a stop. The result remains valid after interrupt_release, so that a command that stops one
 * search also stops the searches after it. */
bool interrupt_asked(void);
/* Forgets a requested stop: a training continues although its search for a plan was stopped. */
void interrupt_forget(void);
/* Returns the exit status of a command that was stopped before it had an answer: 130, or 143 after SIGTERM. */
int interrupt_status(void);
/* Sets a deadline. If the work has not stopped within `seconds` (whole seconds, at least 1) after a signal, the process prints
 * `sentence` and exits with interrupt_status(). The sentence must end with a line break and remain valid. NULL cancels the
 * deadline, and so does interrupt_release. May be called only while SIGTERM is caught. */
void interrupt_force(const char *sentence, unsigned seconds);
