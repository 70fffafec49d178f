// SPDX-License-Identifier: MIT
//
// Small programs that depend on one thing from outside each, for causes_test.py: the first argument
// says which.
#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace {

const char* more = "";  // the second argument

// What a program would make of a number: other branches, other output.
void Use(long n) {
  long sum = 0;
  for (long i = 0; i < n % 50; ++i) sum += i * 3 > 20 ? 2 : 1;
  printf("%ld\n", sum);
}

void Environment() {
  const char* level = getenv("LEVEL");
  Use(atoi(level != nullptr ? level : "3"));
}

// A value that is copied in one wide move with a random number beside it, as an entry of a hash
// table is with its hash.
void Entry() {
  struct {
    unsigned long hash;
    const char* key;
    long value, more[3];
  } first = {}, copy = {};
  if (getrandom(&first.hash, sizeof first.hash, 0) != sizeof first.hash) return;
  first.key = "LEVEL";
  const char* level = getenv("LEVEL");
  first.value = atoi(level != nullptr ? level : "3");
  const volatile size_t size = sizeof first;  // else the compiler copies it, word by word
  memcpy(&copy, &first, size);
  Use(copy.value);
}

void Present() {
  if (getenv("EXTRA") != nullptr) {
    puts("extra");
  } else {
    puts("plain");
  }
}

void Argument() { Use(static_cast<long>(strlen(more))); }

void File() {
  FILE* f = fopen("data.txt", "r");
  char line[64];
  long limit = 0;
  while (f != nullptr && fgets(line, sizeof line, f) != nullptr) {
    if (strncmp(line, "limit=", 6) == 0) limit = atol(line + 6);
  }
  Use(limit);
}

void StandardInput() {
  int n = 0;
  if (scanf("%d", &n) == 1) Use(n);
}

void Clock() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  printf("%ld\n", now.tv_nsec % 1000003);
}

void Random() {
  unsigned char bytes[8];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return;
  for (const unsigned char b : bytes) Use(b);
}

void Device() {
  std::random_device device("/dev/urandom");
  std::mt19937 generator(device());
  for (int i = 0; i < 20; ++i) printf("%d\n", static_cast<int>(generator() % 7));
}

// How often each number is drawn. The seed is given, and no chance: how the difference gets into a
// tree depends on what is drawn.
void Counted() {
  unsigned seed = 0;
  if (scanf("%u", &seed) != 1) return;
  std::mt19937 generator(seed);
  std::map<std::string, int> drawn;
  for (int i = 0; i < 20; ++i) ++drawn[std::to_string(generator() % 7)];
  for (const auto& [name, count] : drawn) printf("%s %d\n", name.c_str(), count);
}

// A block that is given back with something in it, and another one in its place that is read as if
// it were empty.
void HeapNotWritten() {
  char* old = static_cast<char*>(malloc(200));
  snprintf(old, 200, "%s", getenv("UNRELATED"));
  free(old);
  char* fresh = static_cast<char*>(malloc(200));
  fresh[0] = 'x';
  Use(fresh[20] > 'm' ? 30 : 3);
  free(fresh);
}

__attribute__((noinline)) void LeaveOnStack() {
  volatile char bytes[256];
  const char* text = getenv("UNRELATED");
  for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = text[20];
}
__attribute__((noinline)) int TakeFromStack() {
  volatile char bytes[256];
  return bytes[100];
}
void StackNotWritten() {
  LeaveOnStack();
  Use(TakeFromStack());
}

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int order = 0;
int places[2];
void* Runner(void* which) {
  const long me = reinterpret_cast<long>(which);
  // Waits for its turn: which of the two is written to first is not for this program to say.
  const int fd = open(me == 0 ? "first.fifo" : "second.fifo", O_RDONLY);
  char byte;
  if (read(fd, &byte, 1) != 1) return nullptr;
  pthread_mutex_lock(&lock);
  places[me] = ++order;
  pthread_mutex_unlock(&lock);
  close(fd);  // which says that this one has had its turn
  return nullptr;
}
void Threads() {
  pthread_t threads[2];
  for (long i = 0; i < 2; ++i)
    pthread_create(&threads[i], nullptr, Runner, reinterpret_cast<void*>(i));
  for (pthread_t t : threads) pthread_join(t, nullptr);
  if (places[0] < places[1]) {
    puts("the first was first");
  } else {
    puts("the second was first");
  }
}

void Directory() {
  DIR* directory = opendir(more);
  std::vector<std::string> names;
  while (const dirent* entry = directory != nullptr ? readdir(directory) : nullptr) {
    if (entry->d_name[0] != '.') names.push_back(entry->d_name);
  }
  for (const std::string& name : names) puts(name.c_str());
}

// The order does not matter to this one; a variable does.
void SortedDirectory() {
  DIR* directory = opendir(more);
  std::vector<std::string> names;
  while (const dirent* entry = directory != nullptr ? readdir(directory) : nullptr) {
    if (entry->d_name[0] != '.') names.push_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  Environment();
}

void Status() {
  struct stat status;
  if (stat("data.txt", &status) == 0) Use(status.st_mtime);
}

void Locale() {
  setlocale(LC_ALL, "");
  wchar_t wide[16];
  Use(static_cast<long>(mbstowcs(wide, "\xc3\xa9t\xc3\xa9", 16)) + 10);
}

void Process() { printf("%d\n", getpid()); }

void WorkingDirectory() {
  char path[4096];
  if (getcwd(path, sizeof path) != nullptr) Use(static_cast<long>(strlen(path)));
}

const std::map<std::string, void (*)()> programs = {{"environment", Environment},
                                                    {"present", Present},
                                                    {"entry", Entry},
                                                    {"argument", Argument},
                                                    {"file", File},
                                                    {"stdin", StandardInput},
                                                    {"clock", Clock},
                                                    {"random", Random},
                                                    {"device", Device},
                                                    {"counted", Counted},
                                                    {"heap", HeapNotWritten},
                                                    {"stack", StackNotWritten},
                                                    {"threads", Threads},
                                                    {"directory", Directory},
                                                    {"sorted", SortedDirectory},
                                                    {"status", Status},
                                                    {"locale", Locale},
                                                    {"process", Process},
                                                    {"cwd", WorkingDirectory}};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2) more = argv[2];
  const auto found = argc > 1 ? programs.find(argv[1]) : programs.end();
  if (found == programs.end()) return 2;
  found->second();
  return 0;
}
