/* feed.h - feeds of training batches, from array files, a text, or a generator.
 *
 * The content of batch k depends only on the sources, the seed and k. A resumed training therefore receives the same batches as
 * an uninterrupted one. Samples are shuffled anew in every epoch. */
#pragma once

#include <stdbool.h>

typedef struct mp_feed mp_feed;

/* True if an argument of --data names a data source ("synthetic", "text=FILE", "vocabulary=FILE", "NAME=FILE",
 * "FILE.parquet"). False if it is only the name of a model input. */
bool mp_feed_is_source(const char *text);

/* Releases a feed that mp_inputs_open_feed (inputs.h) has opened. NULL is allowed. */
void mp_feed_free(mp_feed *feed);
MP_OWNER(mp_feed_free, mp_feed)
