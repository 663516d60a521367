/* feed.h - where batches come from: files of arrays, a text, or a generator.
 *
 * What batch k holds is a function of the sources, the seed and k alone, so that a training that is resumed sees what it would
 * have seen. Samples are taken in a new random order every epoch.
 */
#pragma once

#include <stdbool.h>

typedef struct mp_feed mp_feed;

/* True if an argument of --data is a source ("synthetic", "text=FILE", "vocabulary=FILE", "NAME=FILE", "FILE.parquet") and not
 * just a name. */
bool mp_feed_is_source(const char *text);

/* NULL is fine. A feed comes from mp_inputs_open_feed (inputs.h). */
void mp_feed_free(mp_feed *feed);
MP_OWNER(mp_feed_free, mp_feed)
