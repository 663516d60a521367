/* interrupt.h - Ctrl-C or SIGTERM. Normally they end the program at once, with a sentence. While work runs that can
 * stop with a result, the first signal asks it to stop, and on a terminal shows that it was heard; a second one of the
 * same kind ends the program. */
#pragma once

#include <stdbool.h>

/* Must be called in the program's first line. From here on both signals end the program with a sentence and
 * interrupt_status(), unless they were ignored when it was started. */
void interrupt_begin(void);
/* The functions below do nothing in a rank of many, which has handlers of its own (rank_interrupt.h).
 *
 * From here until interrupt_release SIGINT, and with `term` SIGTERM too, only asks to stop. `quiet`: no message is shown. */
void interrupt_catch(bool term, bool quiet);
void interrupt_release(void);
/* True if a signal asked to stop since interrupt_catch; also after interrupt_release. */
bool interrupt_asked(void);
/* Returns the exit status of a command that was stopped before it had an answer: 130, or 143 after SIGTERM. */
int interrupt_status(void);
/* From here on, if a stop is asked for and not done after `seconds` (whole ones, at least 1), the process ends: it
 * prints `sentence` (with its end of line; the text must stay valid) and exits with interrupt_status(). NULL, or
 * interrupt_release, takes this back. Only where SIGTERM is caught. */
void interrupt_force(const char *sentence, unsigned seconds);
