/* palette.h - the colours of all pictures: one thing has one colour in each. Private to formats/. */
#pragma once

#define MP_COLOR_PAPER "#ffffff"
#define MP_COLOR_CLEAR "#ffffff00" /* of a box that only carries a tooltip */
#define MP_COLOR_TEXT "#0f172a"
#define MP_COLOR_MUTED "#64748b"
#define MP_COLOR_GRID "#e2e8f0"
#define MP_COLOR_WIRE "#94a3b8"
#define MP_COLOR_LIMIT "#dc2626" /* a budget, or the floor */

/* What is in memory, and why. */
#define MP_COLOR_STATIC "#cbd5e1"
#define MP_COLOR_STATE "#94a3b8"
#define MP_COLOR_KEPT "#3b82f6"
#define MP_COLOR_FORWARD_ONLY "#a5c8fa"
#define MP_COLOR_RECOMPUTED "#f59e0b"
#define MP_COLOR_GRADIENT "#a78bfa"
#define MP_COLOR_WORKSPACE "#10b981"
