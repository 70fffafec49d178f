// SPDX-License-Identifier: MIT
//
// System calls that write the program's memory, many kinds of them.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static int g_line;
#define CHECK(c) ((c) ? (void)0 : (void)(g_line = __LINE__, printf("failed: %s\n", #c)))

static void Pipes(void) {
  int p[2];
  char text[64], more[64];
  CHECK(pipe2(p, O_CLOEXEC) == 0);
  CHECK(write(p[1], "0123456789abcdefghijklmnopqrstuvwxyz", 36) == 36);
  int waiting = 0;
  CHECK(ioctl(p[0], FIONREAD, &waiting) == 0 && waiting == 36);
  struct iovec parts[3] = {{text, 5}, {more, 1}, {text + 20, 4}};
  CHECK(readv(p[0], parts, 3) == 10 && text[23] == '9');
  struct pollfd poll_for[2] = {{p[0], POLLIN, 77}, {p[1], POLLOUT, 77}};
  CHECK(poll(poll_for, 2, 100) == 2);
  CHECK(ppoll(poll_for, 1, &(struct timespec){1, 0}, NULL) == 1);
  fd_set in, out;
  FD_ZERO(&in);
  FD_ZERO(&out);
  FD_SET(p[0], &in);
  FD_SET(p[1], &out);
  struct timeval limit = {1, 500};
  CHECK(select(p[1] + 1, &in, &out, NULL, &limit) == 2);
  int e = epoll_create1(0);
  struct epoll_event event = {EPOLLIN, {.u64 = 0x123456789}}, got[4];
  CHECK(epoll_ctl(e, EPOLL_CTL_ADD, p[0], &event) == 0);
  CHECK(epoll_wait(e, got, 4, 100) == 1 && got[0].data.u64 == 0x123456789);
  CHECK(epoll_pwait(e, got + 1, 3, 100, NULL) == 1);
  int q[2];
  CHECK(pipe(q) == 0);
  CHECK(tee(p[0], q[1], 4, 0) == 4 && splice(p[0], NULL, q[1], NULL, 4, 0) == 4);
  CHECK(read(q[0], text, sizeof(text)) == 8 && memcmp(text, "abcdabcd", 8) == 0);
  CHECK(vmsplice(q[1], parts, 2, 0) == 6 && read(q[0], more, 6) == 6);
  close(p[0]), close(p[1]), close(q[0]), close(q[1]), close(e);
}

static void Sockets(void) {
  int s[2];
  char text[100] = "", control[256], name[128];
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, s) == 0);
  int on = 1;
  setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
  struct iovec part = {"message one", 11};
  struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control};
  struct cmsghdr* c = (struct cmsghdr*)control;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  memcpy(CMSG_DATA(c), &s[0], sizeof(int));
  m.msg_controllen = CMSG_SPACE(sizeof(int));
  CHECK(sendmsg(s[0], &m, 0) == 11);
  part = (struct iovec){text, sizeof(text)};
  m.msg_controllen = sizeof(control);
  m.msg_name = name;
  m.msg_namelen = sizeof(name);
  CHECK(recvmsg(s[1], &m, 0) == 11 && strcmp(text, "message one") == 0);
  struct mmsghdr several[3] = {0};
  struct iovec parts[3] = {{"a1", 2}, {"b22", 3}, {"c333", 4}};
  for (int i = 0; i < 3; ++i)
    several[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
  CHECK(sendmmsg(s[0], several, 3, 0) == 3);
  for (int i = 0; i < 3; ++i) parts[i] = (struct iovec){text + 30 * i, 30};
  CHECK(recvmmsg(s[1], several, 3, 0, NULL) == 3 && strncmp(text + 60, "c333", 4) == 0);
  int listener = socket(AF_INET, SOCK_STREAM, 0), type;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof(address);
  if (bind(listener, (void*)&address, size) == 0 && listen(listener, 1) == 0) {
    CHECK(getsockname(listener, (void*)&address, &size) == 0);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(client, (void*)&address, size) == 0);
    size = sizeof(name);
    int server = accept4(listener, (void*)name, &size, SOCK_CLOEXEC);
    CHECK(send(client, "stream", 6, 0) == 6);
    struct sockaddr_in from;
    size = sizeof(from);
    CHECK(recvfrom(server, text, 100, 0, (void*)&from, &size) == 6);
    size = sizeof(from);
    CHECK(getpeername(client, (void*)&from, &size) == 0);
    size = sizeof(type);
    CHECK(getsockopt(client, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM);
    char info[256];
    size = sizeof(info);
    getsockopt(client, IPPROTO_TCP, 11 /* TCP_INFO */, info, &size);
    close(client), close(server);
  }
  close(s[0]), close(s[1]), close(listener);
}

static void Files(void) {
  char name[] = "/tmp/ttq-syscalls-XXXXXX", text[4096];
  int fd = mkstemp(name);
  CHECK(write(fd, name, sizeof(name)) == sizeof(name));
  struct stat st;
  struct statx stx;
  struct statfs fs;
  CHECK(fstat(fd, &st) == 0 && stat(name, &st) == 0 && lstat(name, &st) == 0);
  CHECK(statx(AT_FDCWD, name, 0, STATX_ALL, &stx) == 0 && stx.stx_size == sizeof(name));
  CHECK(statfs(name, &fs) == 0 && fstatfs(fd, &fs) == 0);
  CHECK(pread(fd, text, 10, 3) == 10);
  struct iovec part = {text + 100, 50};
  CHECK(preadv(fd, &part, 1, 2) > 0 && preadv2(fd, &part, 1, 4, 0) > 0);
  struct flock lock = {.l_type = F_WRLCK};
  CHECK(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK);
  struct f_owner_ex owner;
  fcntl(fd, F_GETOWN_EX, &owner);
  char link[64];
  snprintf(link, sizeof(link), "%s.link", name);
  CHECK(symlink(name, link) == 0 && readlink(link, text, sizeof(text)) == sizeof(name) - 1);
  fsetxattr(fd, "user.ttq", "value", 5, 0);
  fgetxattr(fd, "user.ttq", text, sizeof(text));
  flistxattr(fd, text, sizeof(text));
  DIR* d = opendir("/usr");
  int entries = 0;
  while (readdir(d)) ++entries;
  closedir(d);
  CHECK(entries > 3 && getcwd(text, sizeof(text)) != NULL);
  struct file_handle* handle = (struct file_handle*)text;
  handle->handle_bytes = 64;
  int mount;
  name_to_handle_at(AT_FDCWD, name, handle, &mount, 0);
  loff_t at = 0, to = 200;
  syscall(SYS_copy_file_range, fd, &at, fd, &to, 10, 0);
  off_t from = 0;
  int p[2];
  CHECK(pipe(p) == 0 && sendfile(p[1], fd, &from, 7) == 7 && from == 7);
  const long key = syscall(SYS_pkey_alloc, 0, 0);
  if (key > 0) syscall(SYS_pkey_free, key);
  aio_context_t aio = 0;
  struct iocb request = {.aio_lio_opcode = IOCB_CMD_PREAD,
                         .aio_fildes = (uint32_t)fd,
                         .aio_buf = (uint64_t)text,
                         .aio_nbytes = 12};
  struct iocb* requests[] = {&request};
  struct io_event done;
  if (syscall(SYS_io_setup, 4, &aio) == 0) {
    CHECK(syscall(SYS_io_submit, aio, 1, requests) == 1);
    CHECK(syscall(SYS_io_getevents, aio, 1, 1, &done, NULL) == 1 && done.res == 12);
    syscall(SYS_io_destroy, aio);
  }
  unlink(name), unlink(link), close(fd), close(p[0]), close(p[1]);
}

static void Descriptors(void) {
  uint64_t count = 5;
  int e = eventfd(0, 0);
  CHECK(write(e, &count, 8) == 8 && read(e, &count, 8) == 8);
  int t = timerfd_create(CLOCK_MONOTONIC, 0);
  struct itimerspec when = {{0, 0}, {0, 1000000}}, old;
  CHECK(timerfd_settime(t, 0, &when, &old) == 0 && read(t, &count, 8) == 8);
  CHECK(timerfd_gettime(t, &old) == 0);
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, &before);
  int s = signalfd(-1, &set, 0);
  raise(SIGUSR1);
  struct signalfd_siginfo info;
  CHECK(read(s, &info, sizeof(info)) == sizeof(info) && info.ssi_signo == SIGUSR1);
  raise(SIGUSR1);
  siginfo_t taken;
  CHECK(sigpending(&before) == 0 &&
        sigtimedwait(&set, &taken, &(struct timespec){1, 0}) == SIGUSR1);
  int i = inotify_init1(IN_NONBLOCK);
  char text[4096];
  inotify_add_watch(i, "/tmp", IN_CREATE);
  int made = open("/tmp/ttq-inotify", O_CREAT | O_RDWR, 0600);
  CHECK(read(i, text, sizeof(text)) > 0);
  unlink("/tmp/ttq-inotify");
  struct winsize size;
  struct termios terminal;
  int tty = open("/dev/ptmx", O_RDWR | O_NOCTTY);
  if (tty >= 0) {
    int number;
    ioctl(tty, TIOCGWINSZ, &size);
    ioctl(tty, TIOCGPTN, &number);
    tcgetattr(tty, &terminal);
  }
  close(e), close(t), close(s), close(i), close(made), close(tty);
}

static void Process(void) {
  struct rusage usage;
  struct rlimit limit;
  struct sysinfo system;
  struct utsname name;
  struct tms ticks;
  struct timespec now;
  struct timeval day;
  cpu_set_t cpus;
  gid_t groups[64];
  uid_t r, e, s;
  char text[64];
  unsigned cpu, node;
  int number;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0 && getrlimit(RLIMIT_STACK, &limit) == 0);
  CHECK(prlimit(0, RLIMIT_NOFILE, NULL, &limit) == 0 && sysinfo(&system) == 0 && uname(&name) == 0);
  CHECK(times(&ticks) != -1 && clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
  CHECK(syscall(SYS_clock_gettime, CLOCK_REALTIME, &now) == 0);
  CHECK(syscall(SYS_gettimeofday, &day, NULL) == 0 && clock_getres(CLOCK_MONOTONIC, &now) == 0);
  CHECK(sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && getgroups(64, groups) >= 0);
  CHECK(getresuid(&r, &e, &s) == 0 && getrandom(text, 33, 0) == 33);
  CHECK(syscall(SYS_getcpu, &cpu, &node, NULL) == 0);
  CHECK(prctl(PR_GET_NAME, text) == 0 && prctl(PR_GET_PDEATHSIG, &number) == 0);
  struct sched_param parameters;
  CHECK(sched_getparam(0, &parameters) == 0 && sched_rr_get_interval(0, &now) == 0);
  uint32_t header[2] = {0x20080522, 0}, capabilities[6];
  CHECK(syscall(SYS_capget, header, capabilities) == 0);
  CHECK(syscall(SYS_futex, &number, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0);
  void* head;
  size_t bytes;
  CHECK(syscall(SYS_get_robust_list, 0, &head, &bytes) == 0);
  struct itimerval timer;
  CHECK(getitimer(ITIMER_REAL, &timer) == 0);
  timer_t posix;
  struct itimerspec left;
  CHECK(timer_create(CLOCK_MONOTONIC, &(struct sigevent){.sigev_notify = SIGEV_NONE}, &posix) == 0);
  CHECK(timer_gettime(posix, &left) == 0 && timer_delete(posix) == 0);
  nanosleep(&(struct timespec){0, 1000}, &now);
  clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, 1000}, &now);
  pid_t child = fork();
  if (child == 0) _exit(3);
  siginfo_t info;
  CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0 && info.si_status == 3);
  int status;
  CHECK(wait4(child, &status, 0, &usage) == child && WEXITSTATUS(status) == 3);
  CHECK(syscall(SYS_io_uring_setup, 4, text) == -1);  // no: it would write at any moment
  // Nobody waits for the child as its tracer: it would stand still at its first signal.
  child = fork();
  if (child == 0) {
    const int traced = ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
    if (!traced) raise(SIGCHLD);
    _exit(traced || errno == EPERM ? 4 : 5);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 4);
  // Filters would stop the recorder's own calls.
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
}

static void SystemV(void) {
  struct {
    long type;
    char text[40];
  } message = {3, "hello"};
  int q = msgget(IPC_PRIVATE, 0600);
  if (q < 0) return;
  struct msqid_ds state;
  CHECK(msgsnd(q, &message, 40, 0) == 0 && msgctl(q, IPC_STAT, &state) == 0);
  memset(&message, 0, sizeof(message));
  CHECK(msgrcv(q, &message, 40, 0, 0) == 40 && strcmp(message.text, "hello") == 0);
  msgctl(q, IPC_RMID, NULL);
  int s = semget(IPC_PRIVATE, 3, 0600);
  unsigned short values[3] = {1, 2, 3};
  struct semid_ds about;
  CHECK(semctl(s, 0, SETALL, values) == 0 && semctl(s, 0, GETALL, values) == 0);
  CHECK(semctl(s, 0, IPC_STAT, &about) == 0);
  struct sembuf up = {1, 1, 0};
  CHECK(semop(s, &up, 1) == 0);
  semctl(s, 0, IPC_RMID);
}

int main(void) {
  for (int i = 0; i < 5; ++i) {
    Pipes();
    Sockets();
    Files();
    Descriptors();
    Process();
    SystemV();
  }
  printf("done %d\n", g_line);
  return g_line != 0;
}
