/* c_linkage.h - what stands between MP_C_BEGIN and MP_C_END has C's linkage where a .cu file reads it. */
#pragma once

#ifdef __cplusplus
#define MP_C_BEGIN extern "C" {
#define MP_C_END }
#else
#define MP_C_BEGIN
#define MP_C_END
#endif
