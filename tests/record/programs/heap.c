// SPDX-License-Identifier: MIT
//
// Blocks of the heap with a known history. Prints the addresses that the test asks about; with an
// argument it ends by a mistake of that kind.
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NOINLINE __attribute__((noinline))

struct node {
  long key;
  struct node* next;
  char name[16];
};

NOINLINE struct node* make_node(long key) {
  struct node* n = malloc(sizeof *n);
  n->key = key;
  n->next = NULL;
  strcpy(n->name, "node");
  return n;
}

NOINLINE void drop_node(struct node* n) { free(n); }

NOINLINE long use_node(struct node* n) { return n->key + n->name[0]; }

NOINLINE char* grow(char* text, size_t size) { return realloc(text, size); }

NOINLINE char* leak_text(int i) { return calloc(1 + (size_t)i, 10); }

int main(int argc, char** argv) {
  const char* mistake = argc > 1 ? argv[1] : "";
  struct node* kept = make_node(1);
  struct node* dropped = make_node(2);
  printf("kept %p dropped %p\n", (void*)kept, (void*)dropped);
  char* grown = malloc(100);
  char* large = malloc(1 << 20);
  char* before = grown;
  grown = grow(grown, 5000);
  printf("before %p grown %p usable %zu large %p\n", (void*)before, (void*)grown,
         malloc_usable_size(grown), (void*)large);
  void* aligned = NULL;
  if (posix_memalign(&aligned, 256, 300) != 0) return 1;
  char* also_aligned = aligned_alloc(64, 128);
  printf("aligned %p also %p\n", aligned, (void*)also_aligned);
  for (int i = 0; i < 5; ++i) leak_text(i)[0] = 1;
  char* mapped = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* unmapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unmapped[0] = 1;
  munmap(unmapped, 8192);
  printf("mapped %p unmapped %p usable %zu\n", (void*)mapped, (void*)unmapped,
         malloc_usable_size(kept));
  free(large);
  free(aligned);
  free(also_aligned);
  drop_node(dropped);
  fflush(stdout);
  long sum = use_node(kept);
  if (strcmp(mistake, "use-after-free") == 0) sum += use_node(dropped);
  if (strcmp(mistake, "double-free") == 0) drop_node(dropped);
  if (strcmp(mistake, "past-the-end") == 0) kept->name[16 + (sum > 1)] = 1;
  if (strcmp(mistake, "unmapped") == 0) unmapped[7] = 2;
  free(grown);
  return 0;
}
