/* clock.h - a monotonic clock: seconds since a fixed moment of the program run. */
#pragma once

double mp_clock_now(void);
