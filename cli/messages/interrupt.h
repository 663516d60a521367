/* interrupt.h - Ctrl-C or SIGTERM. While there is nothing to keep they end the program, at once and with a sentence. While
 * something runs that can be stopped with what it has, the first asks for that, and on a terminal shows at once that it was
 * heard; the second of the same kind ends the program. */
#pragma once

#include <stdbool.h>

/* Called in the program's first line. From here on both signals end the program with a sentence and interrupt_status(), unless
 * whoever started it has it ignore them. */
void interrupt_begin(void);
/* From here on SIGINT, and with `term` SIGTERM too, only ask; until interrupt_release. `quiet`: without a word. */
void interrupt_catch(bool term, bool quiet);
void interrupt_release(void);
/* True if the end was asked for since interrupt_catch; also after interrupt_release. */
bool interrupt_asked(void);
/* Returns the exit status of a command that was stopped before it had an answer: 130, or 143 where it was SIGTERM that asked.
 */
int interrupt_status(void);
/* From here on what was asked for and is not done after `seconds` (whole ones, at least 1) ends the process, which says
 * `sentence` (with its end of line; it has to stay where it is) and exits with interrupt_status(). NULL, and
 * interrupt_release: no longer. Only where SIGTERM is caught. */
void interrupt_force(const char *sentence, unsigned seconds);
