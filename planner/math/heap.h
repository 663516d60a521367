/* heap.h - a binary heap as a priority queue of integers: the smallest key first, ties by the smaller value. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct mp_heap_item {
    int64_t key;
    int value;
} mp_heap_item;

/* The array belongs to the caller and must have space for all items. */
typedef struct mp_heap {
    mp_heap_item *items;
    size_t n;
} mp_heap;

void mp_heap_push(mp_heap *heap, int64_t key, int value); /* O(log n) */
int mp_heap_pop(mp_heap *heap);                           /* removes the first item, which must exist; returns its value.
                                                           * O(log n) */
