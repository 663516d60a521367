/* clock.h - a monotonic clock. It counts seconds since a fixed moment, which is the same for all calls in a process. */
#pragma once

double mp_clock_now(void);
