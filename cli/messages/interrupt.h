/* interrupt.h - Ctrl-C while something runs that can be stopped with what it has: the first asks for that, and shows at once
 * that it was heard; the second ends the program. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

/* From here on SIGINT, and with `term` SIGTERM too, only ask; until interrupt_release. `quiet`: without a word. */
void interrupt_catch(bool term, bool quiet);
void interrupt_release(void);
/* Whether it was asked for since interrupt_catch; also after interrupt_release. */
bool interrupt_asked(void);

#endif
