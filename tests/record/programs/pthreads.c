// SPDX-License-Identifier: MIT
//
// What threads do to each other: locks and conditions under load, barriers, spinning, cancellation,
// signals to one of them, thread-local storage, children made while others run, stacks that a
// thread gives up itself, a first thread that ends before the others. The output is the same in
// every run.

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 4, kRounds = 300 };

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t g_filled = PTHREAD_COND_INITIALIZER, g_emptied = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t g_barrier;
static pthread_rwlock_t g_shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t g_inherits;
static int g_queue[8], g_used;
static long g_consumed, g_phases[kThreads], g_guarded;
static atomic_int g_turn, g_at_work, g_signals, g_detached;
static __thread long g_own = 41;
static pthread_key_t g_key;
static long g_destroyed;
static pthread_t g_first;

static void* Produce(void* argument) {
  for (int i = 0; i < kRounds; ++i) {
    pthread_mutex_lock(&g_lock);
    while (g_used == 8) pthread_cond_wait(&g_emptied, &g_lock);
    g_queue[g_used++] = i;
    pthread_cond_signal(&g_filled);
    pthread_mutex_unlock(&g_lock);
  }
  return argument;
}

static void* Consume(void* argument) {
  for (int i = 0; i < kRounds; ++i) {
    pthread_mutex_lock(&g_lock);
    while (g_used == 0) pthread_cond_wait(&g_filled, &g_lock);
    g_consumed += g_queue[--g_used];
    pthread_cond_signal(&g_emptied);
    pthread_mutex_unlock(&g_lock);
  }
  return argument;
}

// Each waits for its turn without a system call.
static void* Spin(void* argument) {
  const int me = (int)(long)argument;
  for (int round = 0; round < 2; ++round) {
    while (atomic_load(&g_turn) != round * kThreads + me) {
    }
    g_own += round;
    atomic_fetch_add(&g_turn, 1);
  }
  return (void*)g_own;
}

static void* Phase(void* argument) {
  const long me = (long)argument;
  for (int phase = 0; phase < 10; ++phase) {
    g_phases[me] += phase;
    pthread_barrier_wait(&g_barrier);
    long sum = 0;
    for (int i = 0; i < kThreads; ++i) sum += g_phases[i];
    if (sum != kThreads * g_phases[me]) abort();
    pthread_barrier_wait(&g_barrier);
    pthread_rwlock_rdlock(&g_shared);
    sum = g_guarded;
    pthread_rwlock_unlock(&g_shared);
    pthread_mutex_lock(&g_inherits);
    ++g_guarded;
    pthread_mutex_unlock(&g_inherits);
  }
  return NULL;
}

static void Destroy(void* value) { g_destroyed += (long)value; }

static void OnCancel(void* argument) { *(int*)argument = 1; }
static void* WaitForever(void* argument) {
  pthread_setspecific(g_key, (void*)100);
  pthread_cleanup_push(OnCancel, argument);
  for (;;) pause();
  pthread_cleanup_pop(0);
  return NULL;
}
static void* RunForever(void* argument) {
  int old;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
  pthread_cleanup_push(OnCancel, argument);
  atomic_fetch_add(&g_at_work, 1);
  for (volatile long n = 0;; ++n) {
    if (n % 256 == 0) sched_yield();
  }
  pthread_cleanup_pop(0);
  return NULL;
}

static pid_t g_expected;
static void OnUser(int number, siginfo_t* info, void* context) {
  (void)context;
  if ((pid_t)syscall(SYS_gettid) == g_expected && info->si_code == SI_TKILL && number == SIGUSR1) {
    atomic_fetch_add(&g_signals, 1);
  }
}
static void* TakeSignals(void* argument) {
  sigset_t none;
  sigemptyset(&none);
  g_expected = (pid_t)syscall(SYS_gettid);
  stack_t own = {.ss_sp = malloc(SIGSTKSZ * 4), .ss_size = SIGSTKSZ * 4};
  sigaltstack(&own, NULL);
  atomic_fetch_add(&g_at_work, 1);
  while (atomic_load(&g_signals) < 20) sigsuspend(&none);
  own.ss_flags = SS_DISABLE;
  sigaltstack(&own, NULL);
  free(own.ss_sp);
  return argument;
}

static void* Detached(void* argument) {
  char mine[16 << 10];
  memset(mine, (int)(long)argument, sizeof(mine));
  atomic_fetch_add(&g_detached, mine[77] == (char)(long)argument);
  return NULL;  // its stack goes with it
}

// Children are made while others run.
extern char** environ;
static void* MakeChildren(void* argument) {
  long ok = 0;
  for (int i = 0; i < 2; ++i) {
    pid_t child;
    int status;
    char* words[] = {"true", NULL};
    if (posix_spawnp(&child, "true", NULL, NULL, words, environ) == 0) {
      waitpid(child, &status, 0);
      ok += status == 0;
    }
    child = fork();
    if (child == 0) {
      g_own += 5;
      _exit(g_own == 46 ? 3 : 4);
    }
    waitpid(child, &status, 0);
    ok += WEXITSTATUS(status) == 3;
  }
  (void)argument;
  return (void*)ok;
}

static void* EndLast(void* argument) {
  pthread_join(g_first, NULL);  // which has ended by pthread_exit
  printf("last: %ld\n", (long)argument);
  return NULL;
}

static long RunAll(void* (*f)(void*), void* (*g)(void*)) {
  pthread_t t[kThreads];
  long sum = 0;
  for (long i = 0; i < kThreads; ++i) pthread_create(&t[i], NULL, i % 2 ? g : f, (void*)i);
  for (int i = 0; i < kThreads; ++i) {
    void* value;
    pthread_join(t[i], &value);
    sum += (long)value;
  }
  return sum;
}

int main(void) {
  printf("queue: %ld, ", RunAll(Produce, Consume));
  printf("%ld\n", g_consumed);
  printf("spin: %ld\n", RunAll(Spin, Spin));
  pthread_barrier_init(&g_barrier, NULL, kThreads);
  pthread_mutexattr_t inherits;
  pthread_mutexattr_init(&inherits);
  pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT);
  pthread_mutex_init(&g_inherits, &inherits);
  RunAll(Phase, Phase);
  printf("phases: %ld %ld\n", g_phases[3], g_guarded);

  pthread_key_create(&g_key, Destroy);
  int cleaned[4] = {0}, canceled = 0;
  pthread_t t[4];
  for (int i = 0; i < 4; ++i)
    pthread_create(&t[i], NULL, i % 2 ? RunForever : WaitForever, &cleaned[i]);
  while (atomic_load(&g_at_work) < 2) usleep(100);
  for (int i = 0; i < 4; ++i) {
    void* value;
    pthread_cancel(t[i]);
    pthread_join(t[i], &value);
    canceled += value == PTHREAD_CANCELED;
  }
  printf("canceled: %d, cleaned: %d %d %d\n", canceled, cleaned[1], cleaned[3], cleaned[0] <= 1);

  struct sigaction act = {.sa_sigaction = OnUser, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigaction(SIGUSR1, &act, NULL);
  sigset_t user;
  sigemptyset(&user);
  sigaddset(&user, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &user, NULL);
  g_at_work = 0;
  pthread_create(&t[0], NULL, TakeSignals, NULL);
  while (atomic_load(&g_at_work) == 0) usleep(100);
  for (int seen = 0; seen < 20;) {
    pthread_kill(t[0], SIGUSR1);
    while (atomic_load(&g_signals) == seen) sched_yield();
    seen = atomic_load(&g_signals);
  }
  pthread_join(t[0], NULL);
  printf("signals: %d\n", g_signals);

  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  for (long i = 0; i < 40; ++i) {
    while (pthread_create(&t[0], &detached, Detached, (void*)i)) usleep(100);
  }
  while (atomic_load(&g_detached) < 40) usleep(100);
  printf("detached: %d\n", g_detached);

  g_own = 41;
  g_at_work = 0;
  pthread_t busy;
  int done = 0;
  pthread_create(&busy, NULL, RunForever, &done);
  printf("children: %ld\n", RunAll(MakeChildren, MakeChildren));
  pthread_cancel(busy);
  pthread_join(busy, NULL);
  printf("errors: %d\n", setuid(getuid()));  // all threads do it, by a signal
  fflush(stdout);
  g_first = pthread_self();
  pthread_create(&t[0], NULL, EndLast, (void*)7);
  pthread_exit(NULL);
}
