/* clock.h - a clock tells seconds since a moment that is the same for the whole run of a program, and never goes back. */
#pragma once

double mp_clock_now(void);
