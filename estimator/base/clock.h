/* clock.h - a monotonic clock: seconds since a fixed moment. The moment is the same for all calls in a process. */
#pragma once

double mp_clock_now(void);
