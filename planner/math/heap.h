/* heap.h - a binary heap of integers with keys, used as a priority queue. The integer with the smallest key is first. Of
 * integers with equal keys, the smallest is first. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct mp_heap_item {
    int64_t key;
    int value;
} mp_heap_item;

/* The array `items` belongs to the caller, and must have space for all integers in the heap. */
typedef struct mp_heap {
    mp_heap_item *items;
    size_t n;
} mp_heap;

void mp_heap_push(mp_heap *heap, int64_t key, int value); /* O(log n) */
/* Removes the first integer from the heap and returns it. Precondition: the heap is not empty. O(log n). */
int mp_heap_pop(mp_heap *heap);
