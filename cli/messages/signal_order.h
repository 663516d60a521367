/* signal_order.h - distinguishes a second request to stop from one request that arrives as two signals. timeout(1) signals its
 * child and then the process group of the child. Launchers forward the Ctrl-C that the terminal has already sent. */
#pragma once

/* SIGNAL_AGAIN: a second request */
typedef enum signal_order { SIGNAL_FIRST, SIGNAL_DOUBLED, SIGNAL_AGAIN } signal_order;

/* Returns the order of a SIGINT or SIGTERM among the signals of its kind. SIGNAL_DOUBLED: the signal arrives within 0.2 s of
 * the first. Each handler calls this function once per signal. All three functions of this file are async-signal-safe. */
signal_order signal_next(int signal);
/* From this call on, the next signal of each kind is again the first. */
void signals_forget(void);
/* Ends the process by the default action of the signal, after the handler has returned. */
void signal_end_process(int signal);
