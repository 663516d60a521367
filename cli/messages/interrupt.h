/* interrupt.h - handling of Ctrl-C and SIGTERM. Normally they end the program at once, with a message. While work runs that can
 * stop with a result, the first signal requests a stop, and a terminal shows a confirmation. A second signal of the same kind
 * ends the program. */
#pragma once

#include <stdbool.h>

/* Must be called first in main. From then on both signals end the program with a message and interrupt_status(), unless they
 * were ignored at the start. */
void interrupt_begin(void);
/* The functions below do nothing in a rank of a multi-process training, which has its own handlers (rank_interrupt.h).
 *
 * From this call until interrupt_release, SIGINT only requests a stop; with `term`, SIGTERM does too. `quiet`: no message is
 * shown.
 */
void interrupt_catch(bool term, bool quiet);
void interrupt_release(void);
/* True if a signal requested a stop since interrupt_catch; also valid after interrupt_release. */
bool interrupt_asked(void);
/* Returns the exit status of a command stopped before it had an answer: 130, or 143 after SIGTERM. */
int interrupt_status(void);
/* Sets a deadline. If a stop is requested and not completed within `seconds` (whole seconds, at least 1), the process prints
 * `sentence` and exits with interrupt_status(). The sentence includes its end of line and must remain valid. NULL, or
 * interrupt_release, cancels the deadline. Only while SIGTERM is caught. */
void interrupt_force(const char *sentence, unsigned seconds);
