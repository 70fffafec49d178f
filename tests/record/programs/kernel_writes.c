// SPDX-License-Identifier: MIT
//
// System calls that write memory, each into a slice of memory that nothing else writes after it:
// with odd sizes, nothing, partial results, errors, and interrupted by signals. A line per call.
//
//     kernel_writes FILE [POISON [busy]]
//
// Prints a line per slice: its address, its size, what returned, and its name; and writes all
// slices, as they are at the end, to FILE. A recording must have the same bytes. POISON is what is
// in them before; `busy`: another thread runs whenever one can.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/capability.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/sockios.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
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
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/quota.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { kPage = 4096, kSlice = 2 * kPage, kStride = 3 * kPage, kMaxCount = 500 };
static unsigned char* const kArena = (unsigned char*)0x30000000;

static int g_poison = 0xa5;
static int g_count;
static const char* g_name[kMaxCount];
static long g_result[kMaxCount];

// Where the call at hand writes: the start of its slice, and the memory that cannot be written
// behind it.
static unsigned char *B, *E;

static void Begin(const char* name) {
  if (g_count == kMaxCount) abort();
  B = kArena + (long)kStride * g_count;
  E = B + kSlice;
  memset(B, g_poison, kSlice);
  g_name[g_count] = name;
}

static void End(long result) { g_result[g_count++] = result < 0 ? -errno : result; }

// A call, which may prepare its slice first.
#define T(name, ...)          \
  do {                        \
    Begin(name);              \
    errno = 0;                \
    End((long)(__VA_ARGS__)); \
  } while (0)
#define PUT(type, at, ...) ((type*)memcpy((at), (type[]){__VA_ARGS__}, sizeof(type)))
#define S(number, ...) syscall(SYS_##number, ##__VA_ARGS__)

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

static void OnSignal(int number) { (void)number; }

// Signals from now on, until Calm.
static void Disturb(void) {
  struct itimerval often = {{0, 30000}, {0, 30000}};
  setitimer(ITIMER_REAL, &often, NULL);
}
static int Calm(int result) {
  int error = errno;
  setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
  errno = error;
  return result;
}
// A call that is interrupted.
#define INTERRUPTED(name, ...)     \
  do {                             \
    Begin(name);                   \
    Disturb();                     \
    errno = 0;                     \
    End(Calm((int)(__VA_ARGS__))); \
  } while (0)

static int g_pipe[2], g_file, g_dir;
static char g_path[] = "/tmp/ttq-kernel-XXXXXX";

static void Fill(int bytes) {
  char text[512];
  for (int i = 0; i < 512; ++i) text[i] = (char)('a' + i % 26);
  while (bytes > 0) bytes -= (int)write(g_pipe[1], text, (size_t)(bytes < 512 ? bytes : 512));
}
static void Drain(void) {
  char text[512];
  fcntl(g_pipe[0], F_SETFL, O_NONBLOCK);
  while (read(g_pipe[0], text, sizeof(text)) > 0) {
  }
  fcntl(g_pipe[0], F_SETFL, 0);
}

static struct iovec* Vector(int count, size_t each) {
  struct iovec* v = (struct iovec*)(B + 4096);
  for (int i = 0; i < count; ++i) v[i] = (struct iovec){B + 100 * i + i, i % 3 == 2 ? 0 : each};
  return v;
}

static fd_set* Set(unsigned char* at, int a, int b) {
  fd_set* set = (fd_set*)at;
  memset(at, 0, 16);  // no more: the rest of the slice belongs to others
  if (a >= 0) at[a / 8] = (unsigned char)(at[a / 8] | 1 << a % 8);
  if (b >= 0) at[b / 8] = (unsigned char)(at[b / 8] | 1 << b % 8);
  return set;
}

static void Waiting(void) {
  static const char* names[] = {"select 1",  "select 5",  "select 8",  "select 9",  "select 13",
                                "select 20", "select 63", "select 65", "select 100"};
  static const int counts[] = {1, 5, 8, 9, 13, 20, 63, 65, 100};
  Drain();
  Fill(1);
  for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
    const int n = counts[i], high = n - 1 > 2 ? n - 1 : 0, low = n - 2 > 2 ? n - 2 : 0;
    const int saved = dup2(0, 200);
    int idle[2];
    if (pipe(idle) != 0) abort();
    const int kept_high = fcntl(high, F_DUPFD, 210), kept_low = fcntl(low, F_DUPFD, 210);
    // The highest is ready, the one below is not.
    if (low != high) dup2(idle[0], low);
    dup2(g_pipe[0], high);
    T(names[i], select(n, Set(B + 8, high, low), Set(B + 108, high, -1), Set(B + 208, -1, -1),
                       PUT(struct timeval, B + 512, {1, 7})));
    T(names[i], S(pselect6, n, Set(B + 8, high, low), NULL, Set(B + 208, high, low),
                  PUT(struct timespec, B + 512, {1, 7}), NULL));
    close(high), close(low);
    if (kept_high >= 0) dup2(kept_high, high), close(kept_high);
    if (kept_low >= 0) dup2(kept_low, low), close(kept_low);
    dup2(saved, 0), close(saved), close(idle[0]), close(idle[1]);
  }
  const int r = g_pipe[0], w = g_pipe[1];
  T("select, a set that cannot be written",
    select(r + 1, Set(B + 8, r, -1), (fd_set*)(kArena - kPage), NULL, NULL));
  T("select, closed", (close(150), select(151, Set(B + 8, 150, r), NULL, NULL, NULL)));
  Drain();
  T("select, time out",
    select(r + 1, Set(B + 8, r, -1), NULL, NULL, PUT(struct timeval, B + 512, {0, 900})));
  INTERRUPTED("select, interrupted",
              select(r + 1, Set(B + 8, r, -1), NULL, NULL, PUT(struct timeval, B + 512, {9, 7})));
  INTERRUPTED("pselect, interrupted", S(pselect6, r + 1, Set(B + 8, r, -1), NULL, NULL,
                                        PUT(struct timespec, B + 512, {9, 7}), NULL));
  INTERRUPTED("poll, interrupted", poll(PUT(struct pollfd, B + 8, {r, POLLIN, 77}), 1, 9000));
  INTERRUPTED("ppoll, interrupted", S(ppoll, PUT(struct pollfd, B + 8, {r, POLLIN, 77}), 1,
                                      PUT(struct timespec, B + 512, {9, 7}), NULL, 8));
  Fill(3);
  T("poll 0", poll((struct pollfd*)(B + 8), 0, 0));
  T("poll 3", (PUT(struct pollfd, B + 4, {r, POLLIN, 77}), PUT(struct pollfd, B + 12, {-1, 3, 77}),
               PUT(struct pollfd, B + 20, {w, POLLOUT, 77}), poll((struct pollfd*)(B + 4), 3, 0)));
  T("poll, half outside",
    (PUT(struct pollfd, E - 8, {r, POLLIN, 77}), poll((struct pollfd*)(E - 8), 2, 0)));
  T("ppoll", S(ppoll, PUT(struct pollfd, B + 8, {r, POLLIN, 77}), 1,
               PUT(struct timespec, B + 512, {1, 7}), NULL, 8));
  int e = epoll_create1(0);
  epoll_ctl(e, EPOLL_CTL_ADD, r, &(struct epoll_event){EPOLLIN, {.u64 = 0x0123456789abcdef}});
  epoll_ctl(e, EPOLL_CTL_ADD, w, &(struct epoll_event){EPOLLOUT, {.u64 = 0xfedcba9876543210}});
  T("epoll_wait", epoll_wait(e, (struct epoll_event*)(B + 1), 7, 0));
  T("epoll_wait 1", epoll_wait(e, (struct epoll_event*)(B + 3), 1, 0));
  T("epoll_wait, half outside", epoll_wait(e, (struct epoll_event*)(E - 12), 7, 0));
  T("epoll_pwait", epoll_pwait(e, (struct epoll_event*)(B + 1), 7, 0, NULL));
  T("epoll_pwait2", S(epoll_pwait2, e, B + 1, 7, NULL, NULL, 8));
  Drain();
  epoll_ctl(e, EPOLL_CTL_DEL, w, NULL);
  INTERRUPTED("epoll_wait, interrupted", epoll_wait(e, (struct epoll_event*)(B + 1), 7, 9000));
  close(e);
}

static void Reading(void) {
  const int r = g_pipe[0];
  Drain();
  Fill(300);
  T("read 0", read(r, B, 0));
  T("read 1", read(r, B + 5, 1));
  T("read 13", read(r, B + 3, 13));
  T("readv", readv(r, Vector(5, 9), 5));
  T("readv 0", readv(r, Vector(5, 9), 0));
  Drain(), Fill(20);
  T("readv, partial", readv(r, Vector(6, 9), 6));
  Fill(30);
  T("read, half outside", read(r, E - 9, 20));
  Drain(), Fill(30);
  T("readv, half outside", (Vector(3, 9), ((struct iovec*)(B + 4096))[1].iov_base = E - 4,
                            readv(r, (void*)(B + 4096), 3)));
  Drain();
  INTERRUPTED("read, interrupted", read(r, B + 5, 100));
  INTERRUPTED("readv, interrupted", readv(r, Vector(3, 9), 3));
  T("pread", pread(g_file, B + 1, 11, 5));
  T("pread, beyond", pread(g_file, B + 1, 11, 1 << 20));
  T("pread, half outside", pread(g_file, E - 7, 11, 5));
  T("preadv", preadv(g_file, Vector(4, 7), 4, 3));
  T("preadv2", preadv2(g_file, Vector(4, 7), 4, 3, 0));
  T("preadv, half outside", (Vector(3, 9), ((struct iovec*)(B + 4096))[1].iov_base = E - 4,
                             preadv(g_file, (void*)(B + 4096), 3, 0)));
  T("pread large", pread(g_file, B, 5000, 0));
  T("getdents64", S(getdents64, g_dir, B + 3, 200));
  T("getdents64, too small", S(getdents64, g_dir, B, 3));
  T("getdents64, rest", S(getdents64, g_dir, B, 8000));
  lseek(g_dir, 0, SEEK_SET);
  T("getdents64, half outside", S(getdents64, g_dir, E - 100, 4000));
  lseek(g_dir, 0, SEEK_SET);
  T("getdents", S(getdents, g_dir, B + 8, 300));
  T("getrandom", getrandom(B + 1, 17, 0));
  T("getrandom 0", getrandom(B, 0, 0));
  T("getrandom, half outside", S(getrandom, E - 300, 1000, 0));
  T("readahead", readahead(g_file, 0, 10));
  // A pipe's end that is read by vmsplice.
  Drain(), Fill(40);
  T("vmsplice", vmsplice(r, Vector(3, 9), 3, 0));
  Drain(), Fill(100);
  int q[2];
  if (pipe(q) != 0) abort();
  T("tee", tee(r, q[1], 9, 0));
  T("splice to file", splice(r, NULL, g_file, PUT(loff_t, B + 8, 700), 9, 0));
  T("splice from file", splice(g_file, PUT(loff_t, B + 8, 3), q[1], NULL, 9, 0));
  T("sendfile", S(sendfile, q[1], g_file, PUT(off_t, B + 8, 3), 9));
  T("sendfile 0", S(sendfile, q[1], g_file, PUT(off_t, B + 8, 3), 0));
  T("copy_file_range",
    S(copy_file_range, g_file, PUT(loff_t, B + 8, 3), g_file, PUT(loff_t, B + 16, 900), 9, 0));
  close(q[0]), close(q[1]);
}

static void Status(void) {
  char link[80];
  snprintf(link, sizeof(link), "%s.link", g_path);
  unlink(link);
  if (symlink(g_path, link) != 0) return;
  T("stat", S(stat, g_path, B + 3));
  T("lstat", S(lstat, link, B + 3));
  T("fstat", S(fstat, g_file, B + 3));
  T("newfstatat", S(newfstatat, AT_FDCWD, link, B + 3, AT_SYMLINK_NOFOLLOW));
  T("stat, missing", S(stat, "/no/such", B + 3));
  T("fstat, half outside", S(fstat, g_file, E - 60));
  T("statx", S(statx, AT_FDCWD, g_path, 0, STATX_ALL, B + 8));
  T("statfs", S(statfs, "/tmp", B + 8));
  T("fstatfs", S(fstatfs, g_file, B + 8));
  struct stat st;
  stat("/tmp", &st);
  T("ustat", S(ustat, st.st_dev, B + 8));
  T("readlink", readlink(link, (char*)B + 1, 100));
  T("readlink 1", readlink(link, (char*)B + 1, 1));
  T("readlinkat 5", readlinkat(AT_FDCWD, link, (char*)B + 1, 5));
  // Not of a pipe or a socket: their number may have a digit more in the next run.
  char descriptor[32];
  snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", g_file);
  T("readlink, descriptor", readlink(descriptor, (char*)B + 1, 100));
  T("getcwd", S(getcwd, B + 1, 300));
  T("getcwd, too small", S(getcwd, B + 1, 1));
  T("setxattr", fsetxattr(g_file, "user.ttq", "value", 5, 0));
  T("getxattr", getxattr(g_path, "user.ttq", B + 1, 100));
  T("getxattr 0", getxattr(g_path, "user.ttq", B + 1, 0));
  T("getxattr, too small", getxattr(g_path, "user.ttq", B + 1, 2));
  T("lgetxattr", lgetxattr(g_path, "user.ttq", B + 1, 5));
  T("fgetxattr", fgetxattr(g_file, "user.ttq", B + 1, 9));
  T("listxattr", listxattr(g_path, (char*)B + 1, 100));
  T("llistxattr", llistxattr(g_path, (char*)B + 1, 100));
  T("flistxattr", flistxattr(g_file, (char*)B + 1, 100));
  T("name_to_handle_at",
    (PUT(unsigned, B + 16, 40), S(name_to_handle_at, AT_FDCWD, g_path, B + 16, B + 8, 0)));
  T("name_to_handle_at, too small",
    (PUT(unsigned, B + 16, 0), S(name_to_handle_at, AT_FDCWD, g_path, B + 16, B + 8, 0)));
  T("F_GETLK", fcntl(g_file, F_GETLK, PUT(struct flock, B + 8, {.l_type = F_WRLCK})));
  T("F_OFD_GETLK", fcntl(g_file, F_OFD_GETLK, PUT(struct flock, B + 8, {.l_type = F_WRLCK})));
  if (fork() == 0) {  // a lock of somebody else
    T("F_SETLK", fcntl(g_file, F_SETLK, PUT(struct flock, B + 8, {.l_type = F_WRLCK})));
    T("F_GETLK of another", fcntl(g_file, F_GETLK, PUT(struct flock, B + 8, {.l_type = F_RDLCK})));
    _exit(0);
  }
  wait(NULL);
  T("F_GETOWN_EX", fcntl(g_pipe[0], F_GETOWN_EX, B + 8));
  T("F_GET_RW_HINT", fcntl(g_file, 1035, B + 8));
  T("F_GET_FILE_RW_HINT", fcntl(g_file, 1037, B + 8));
  T("quotactl", S(quotactl, QCMD(Q_GETFMT, USRQUOTA), "/dev/vda", 0, B + 8));
  T("lookup_dcookie", S(lookup_dcookie, 1L, B + 8, 100));
  unlink(link);
}

static void Control(void) {
  Drain(), Fill(11);
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  T("FIONREAD", ioctl(g_pipe[0], FIONREAD, B + 5));
  T("FIONREAD of a file", ioctl(g_file, FIONREAD, B + 5));
  T("FS_IOC_GETFLAGS", ioctl(g_file, FS_IOC_GETFLAGS, B + 8));
  T("FS_IOC_GETVERSION", ioctl(g_file, FS_IOC_GETVERSION, B + 8));
  T("FS_IOC_FSGETXATTR", ioctl(g_file, FS_IOC_FSGETXATTR, B + 8));
  T("FIGETBSZ", ioctl(g_file, FIGETBSZ, B + 8));
  T("FIBMAP", ioctl(g_file, FIBMAP, PUT(int, B + 8, 0)));
  T("FIEMAP",
    (fsync(g_file), memset(B + 8, 0, sizeof(struct fiemap)),
     ((struct fiemap*)(B + 8))->fm_length = ~0ULL, ((struct fiemap*)(B + 8))->fm_extent_count = 5,
     ioctl(g_file, FS_IOC_FIEMAP, B + 8)));
  T("SIOCGIFCONF", (PUT(struct ifconf, B + 8, {.ifc_len = 200, .ifc_buf = (char*)B + 512}),
                    ioctl(s, SIOCGIFCONF, B + 8)));
  T("SIOCGIFCONF 41", (PUT(struct ifconf, B + 8, {.ifc_len = 41, .ifc_buf = (char*)B + 512}),
                       ioctl(s, SIOCGIFCONF, B + 8)));
  T("SIOCGIFFLAGS", (strcpy((char*)B + 8, "lo"), ioctl(s, SIOCGIFFLAGS, B + 8)));
  T("SIOCGIFINDEX", (strcpy((char*)B + 8, "lo"), ioctl(s, SIOCGIFINDEX, B + 8)));
  T("SIOCGIFNAME", (PUT(int, B + 8 + IFNAMSIZ, 1), ioctl(s, SIOCGIFNAME, B + 8)));
  T("SIOCGIFMTU", (strcpy((char*)B + 8, "lo"), ioctl(s, SIOCGIFMTU, B + 8)));
  T("SIOCGIFHWADDR", (strcpy((char*)B + 8, "lo"), ioctl(s, SIOCGIFHWADDR, B + 8)));
  T("SIOCETHTOOL", (strcpy((char*)B + 8, "lo"), PUT(int, B + 512, 3 /* GDRVINFO */),
                    ((struct ifreq*)(B + 8))->ifr_data = (char*)B + 512, ioctl(s, 0x8946, B + 8)));
  T("SIOCOUTQ", ioctl(s, SIOCOUTQ, B + 8));
  T("SIOCGSTAMP", ioctl(s, 0x8906, B + 8));
  close(s);
  int tty = open("/dev/ptmx", O_RDWR | O_NOCTTY);
  T("TIOCGPTN", ioctl(tty, TIOCGPTN, B + 8));
  T("TIOCGWINSZ", ioctl(tty, TIOCGWINSZ, B + 8));
  T("TCGETS", ioctl(tty, TCGETS, B + 8));
  T("TCGETS2", ioctl(tty, 0x802c542a, B + 8));
  T("TIOCSPTLCK", ioctl(tty, TIOCSPTLCK, PUT(int, B + 8, 0)));
  T("TIOCGPTLCK", ioctl(tty, 0x80045439, B + 8));
  T("TIOCGPKT", ioctl(tty, 0x80045438, B + 8));
  T("TIOCGPGRP", ioctl(tty, TIOCGPGRP, B + 8));
  T("TIOCGSID", ioctl(tty, TIOCGSID, B + 8));
  T("TIOCGETD", ioctl(tty, TIOCGETD, B + 8));
  T("TIOCGEXCL", ioctl(tty, 0x80045440, B + 8));
  T("TIOCOUTQ", ioctl(tty, TIOCOUTQ, B + 8));
  T("TIOCGDEV", ioctl(tty, 0x80045432, B + 8));
  close(tty);
  int null = open("/dev/null", O_RDWR), urandom = open("/dev/urandom", O_RDONLY);
  T("RNDGETENTCNT", ioctl(urandom, 0x80045200, B + 8));
  T("an ioctl of nobody", ioctl(null, 0xc0107a01, B + 8));
  int disk = open("/dev/vda", O_RDONLY);
  T("BLKGETSIZE", ioctl(disk, BLKGETSIZE, B + 8));
  T("BLKGETSIZE64", ioctl(disk, BLKGETSIZE64, B + 8));
  T("BLKSSZGET", ioctl(disk, BLKSSZGET, B + 8));
  T("BLKROGET", ioctl(disk, BLKROGET, B + 8));
  T("BLKPBSZGET", ioctl(disk, BLKPBSZGET, B + 8));
  T("HDIO_GETGEO", ioctl(disk, 0x301, B + 8));
  int ns = open("/proc/self/ns/user", O_RDONLY);
  T("NS_GET_OWNER_UID", ioctl(ns, 0xb704, B + 8));
  close(null), close(urandom), close(disk), close(ns);
}

static struct msghdr* Message(int parts, size_t each, size_t name, size_t control) {
  struct msghdr* m = (struct msghdr*)(B + 6000);
  *m = (struct msghdr){.msg_iov = Vector(parts, each),
                       .msg_iovlen = (size_t)parts,
                       .msg_name = name ? B + 2000 : NULL,
                       .msg_namelen = (socklen_t)name,
                       .msg_control = control ? B + 3000 : NULL,
                       .msg_controllen = control,
                       .msg_flags = 0x7a7a};
  return m;
}

static void Send(int fd, const char* text) {
  if (send(fd, text, strlen(text), 0) < 0) perror("send");
}

static void Sockets(void) {
  int s[2], t[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, s) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, t) != 0)
    return;
  T("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, (int*)(B + 4)));
  close(((int*)(B + 4))[0]), close(((int*)(B + 4))[1]);
  T("pipe", S(pipe, B + 4));
  close(((int*)(B + 4))[0]), close(((int*)(B + 4))[1]);
  T("pipe2", pipe2((int*)(B + 4), O_CLOEXEC));
  close(((int*)(B + 4))[0]), close(((int*)(B + 4))[1]);
  Send(s[1], "seven b");
  T("recv", recv(s[0], B + 1, 100, 0));
  Send(s[1], "cut off");
  T("recv, cut off", recv(s[0], B + 1, 3, 0));
  Send(s[1], "cut off");
  T("recv, MSG_TRUNC", recv(s[0], B + 1, 3, MSG_TRUNC));
  Send(s[1], "a name?");
  T("recvfrom", (PUT(socklen_t, B + 200, 50),
                 recvfrom(s[0], B + 1, 100, 0, (void*)(B + 100), (void*)(B + 200))));
  Send(s[1], "message in parts");
  T("recvmsg", recvmsg(s[0], Message(5, 4, 0, 0), 0));
  Send(s[1], "message in parts");
  T("recvmsg, cut off", recvmsg(s[0], Message(2, 4, 30, 30), 0));
  Send(s[1], "peek");
  T("recvmsg, peek", recvmsg(s[0], Message(2, 4, 0, 100), MSG_PEEK));
  T("recvmsg, a part outside", (Message(2, 2, 0, 0), ((struct iovec*)(B + 4096))[1].iov_base = E,
                                recvmsg(s[0], (void*)(B + 6000), 0)));
  Send(t[1], "stream of bytes");
  T("recvmsg, stream, a part outside",
    (Message(2, 5, 0, 0), ((struct iovec*)(B + 4096))[1].iov_base = E,
     recvmsg(t[0], (void*)(B + 6000), 0)));
  Send(t[1], "one");
  INTERRUPTED("recv, all, interrupted", recv(t[0], B + 1, 100, MSG_WAITALL));
  INTERRUPTED("recvmsg, all, interrupted", recvmsg(t[0], Message(2, 50, 0, 64), MSG_WAITALL));
  T("SO_PASSCRED", setsockopt(s[0], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)));
  Send(s[1], "who");
  T("recvmsg, credentials", recvmsg(s[0], Message(2, 9, 0, 100), 0));
  Send(s[1], "who");
  T("recvmsg, credentials, cut off", recvmsg(s[0], Message(2, 9, 0, 20), 0));
  Send(s[1], "1"), Send(s[1], "22"), Send(s[1], "333");
  Begin("recvmmsg");
  struct mmsghdr* m = (struct mmsghdr*)(B + 5000);
  memset(m, 0, 4 * sizeof(*m));
  for (int i = 0; i < 4; ++i) {
    ((struct iovec*)(B + 4000))[i] = (struct iovec){B + 64 * i + i, 2};
    m[i].msg_hdr.msg_iov = (struct iovec*)(B + 4000) + i;
    m[i].msg_hdr.msg_iovlen = 1;
    m[i].msg_len = 0x77777777;
    m[i].msg_hdr.msg_control = B + 1000 + 100 * i;
    m[i].msg_hdr.msg_controllen = 90;
  }
  End(recvmmsg(s[0], m, 4, MSG_DONTWAIT, NULL));
  Send(s[1], "1"), Send(s[1], "22");
  Begin("recvmmsg, time out");
  m = (struct mmsghdr*)(B + 5000);
  memset(m, 0, 4 * sizeof(*m));
  for (int i = 0; i < 4; ++i) {
    ((struct iovec*)(B + 4000))[i] = (struct iovec){B + 64 * i + i, 2};
    m[i].msg_hdr.msg_iov = (struct iovec*)(B + 4000) + i;
    m[i].msg_hdr.msg_iovlen = 1;
  }
  End(recvmmsg(s[0], m, 2, 0, PUT(struct timespec, B + 3000, {5, 77})));
  Begin("sendmmsg");
  m = (struct mmsghdr*)(B + 5000);
  memset(m, 0, 4 * sizeof(*m));
  for (int i = 0; i < 3; ++i) {
    ((struct iovec*)(B + 4000))[i] = (struct iovec){B, (size_t)(3 + i)};
    m[i].msg_hdr.msg_iov = (struct iovec*)(B + 4000) + i;
    m[i].msg_hdr.msg_iovlen = 1;
  }
  End(sendmmsg(s[1], m, 3, 0));
  // Names, of the internet and of files.
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof(address);
  if (bind(listener, (void*)&address, size) == 0 && listen(listener, 5) == 0) {
    getsockname(listener, (void*)&address, &size);
    int client[3];
    for (int i = 0; i < 3; ++i) {
      client[i] = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(client[i], (void*)&address, size) != 0) perror("connect");
    }
    T("accept", (PUT(socklen_t, B + 200, 100), accept(listener, (void*)(B + 1), (void*)(B + 200))));
    T("accept 5", (PUT(socklen_t, B + 200, 5), accept(listener, (void*)(B + 1), (void*)(B + 200))));
    T("accept4 0",
      (PUT(socklen_t, B + 200, 0), accept4(listener, (void*)(B + 1), (void*)(B + 200), 0)));
    T("getsockname",
      (PUT(socklen_t, B + 200, 99), getsockname(listener, (void*)(B + 1), (void*)(B + 200))));
    T("getsockname 7",
      (PUT(socklen_t, B + 200, 7), getsockname(listener, (void*)(B + 1), (void*)(B + 200))));
    T("getpeername 3",
      (PUT(socklen_t, B + 200, 3), getpeername(client[0], (void*)(B + 1), (void*)(B + 200))));
    T("getsockopt",
      (PUT(socklen_t, B + 200, 4), getsockopt(listener, 1, SO_TYPE, B + 8, (void*)(B + 200))));
    T("getsockopt 2",
      (PUT(socklen_t, B + 200, 2), getsockopt(listener, 1, SO_RCVBUF, B + 8, (void*)(B + 200))));
    T("getsockopt 100",
      (PUT(socklen_t, B + 200, 100), getsockopt(listener, 1, SO_LINGER, B + 8, (void*)(B + 200))));
    T("TCP_INFO", (PUT(socklen_t, B + 500, 400),
                   getsockopt(client[0], IPPROTO_TCP, TCP_INFO, B + 8, (void*)(B + 500))));
    T("TCP_INFO 13", (PUT(socklen_t, B + 500, 13),
                      getsockopt(client[0], IPPROTO_TCP, TCP_INFO, B + 8, (void*)(B + 500))));
    T("SO_PEERCRED",
      (PUT(socklen_t, B + 200, 12), getsockopt(s[0], 1, SO_PEERCRED, B + 8, (void*)(B + 200))));
    T("TCP_CONGESTION", (PUT(socklen_t, B + 200, 16),
                         getsockopt(client[0], IPPROTO_TCP, 13, B + 8, (void*)(B + 200))));
    int u[2] = {socket(AF_INET, SOCK_DGRAM, 0), socket(AF_INET, SOCK_DGRAM, 0)};
    address.sin_port = 0;
    bind(u[0], (void*)&address, size);
    getsockname(u[0], (void*)&address, &size);
    setsockopt(u[0], SOL_SOCKET, SO_TIMESTAMP, &(int){1}, sizeof(int));
    for (int i = 0; i < 4; ++i) sendto(u[1], "datagram", 8, 0, (void*)&address, size);
    T("recvfrom, name 6", (PUT(socklen_t, B + 200, 6),
                           recvfrom(u[0], B + 300, 3, 0, (void*)(B + 100), (void*)(B + 200))));
    T("recvmsg, name 6", recvmsg(u[0], Message(3, 3, 6, 0), 0));
    T("recvmsg, time stamp", recvmsg(u[0], Message(3, 3, 60, 200), 0));
    T("recvfrom, name outside",
      (PUT(socklen_t, B + 200, 16), recvfrom(u[0], B + 300, 8, 0, (void*)E, (void*)(B + 200))));
    T("recv, nothing", recv(u[0], B, 100, MSG_DONTWAIT));
    T("recvmsg, nothing", recvmsg(u[0], Message(3, 3, 60, 200), MSG_DONTWAIT));
    T("SIOCGSTAMP", ioctl(u[0], 0x8906, B + 8));
    INTERRUPTED("recvfrom, interrupted",
                (PUT(socklen_t, B + 200, 6),
                 recvfrom(u[0], B + 300, 3, 0, (void*)(B + 100), (void*)(B + 200))));
    for (int i = 0; i < 3; ++i) close(client[i]);
    close(u[0]), close(u[1]);
  }
  // A descriptor in a message.
  Begin("SCM_RIGHTS");
  struct msghdr out = {.msg_iov = &(struct iovec){"d", 1}, .msg_iovlen = 1};
  char control[CMSG_SPACE(sizeof(int))] = "";
  struct cmsghdr* c = (struct cmsghdr*)control;
  *c = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
  memcpy(CMSG_DATA(c), &g_file, sizeof(int));
  out.msg_control = control;
  out.msg_controllen = sizeof(control);
  if (sendmsg(t[1], &out, 0) < 0) perror("sendmsg");
  End(recvmsg(t[0], Message(2, 9, 0, 100), 0));
  int netlink = socket(AF_NETLINK, SOCK_RAW, 0);
  T("getsockname, netlink",
    (PUT(socklen_t, B + 200, 99), getsockname(netlink, (void*)(B + 1), (void*)(B + 200))));
  close(netlink), close(listener), close(s[0]), close(s[1]), close(t[0]), close(t[1]);
}

static void Descriptors(void) {
  int e = eventfd(5, 0), t = timerfd_create(CLOCK_MONOTONIC, 0);
  T("eventfd", read(e, B + 3, 8));
  T("eventfd, too small", read(e, B + 3, 7));
  T("timerfd_settime",
    timerfd_settime(t, 0, &(struct itimerspec){{0, 5000}, {0, 5000}}, (struct itimerspec*)(B + 8)));
  T("timerfd", read(t, B + 3, 100));
  T("timerfd_gettime", timerfd_gettime(t, (struct itimerspec*)(B + 8)));
  T("timerfd_settime, old",
    timerfd_settime(t, 0, &(struct itimerspec){{0, 0}, {0, 0}}, (struct itimerspec*)(B + 8)));
  close(e), close(t);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGRTMIN + 2);
  T("rt_sigprocmask", S(rt_sigprocmask, SIG_BLOCK, &set, B + 8, 8));
  int s = signalfd(-1, &set, SFD_NONBLOCK);
  raise(SIGUSR1);
  T("rt_sigpending", S(rt_sigpending, B + 8, 8));
  T("signalfd", read(s, B + 8, 300));
  T("signalfd, nothing", read(s, B + 8, 300));
  raise(SIGUSR1);
  T("rt_sigtimedwait", S(rt_sigtimedwait, &set, B + 8, &(struct timespec){1, 0}, 8));
  sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = 1234567});
  T("rt_sigtimedwait, queued", S(rt_sigtimedwait, &set, B + 8, &(struct timespec){1, 0}, 8));
  T("rt_sigtimedwait, time out", S(rt_sigtimedwait, &set, B + 8, &(struct timespec){0, 9}, 8));
  INTERRUPTED("rt_sigtimedwait, interrupted",
              S(rt_sigtimedwait, &set, B + 8, &(struct timespec){9, 0}, 8));
  close(s);
  int i = inotify_init1(IN_NONBLOCK);
  inotify_add_watch(i, "/tmp", IN_CREATE | IN_DELETE);
  char name[80];
  snprintf(name, sizeof(name), "%s.seen", g_path);
  close(open(name, O_CREAT | O_RDWR, 0600));
  unlink(name);
  T("inotify, too small", read(i, B + 3, 9));
  T("inotify", read(i, B + 3, 60));
  T("inotify, rest", read(i, B + 3, 4000));
  close(i);
  T("mq_open", mq_unlink("/ttq-kernel"));
  struct mq_attr about = {.mq_maxmsg = 4, .mq_msgsize = 50};
  mqd_t q = mq_open("/ttq-kernel", O_CREAT | O_RDWR | O_NONBLOCK, 0600, &about);
  T("mq_getattr", S(mq_getsetattr, q, NULL, B + 8));
  mq_send(q, "message", 7, 3);
  T("mq_timedreceive", S(mq_timedreceive, q, B + 1, 50L, B + 200, NULL));
  T("mq_timedreceive, nothing", S(mq_timedreceive, q, B + 1, 50L, B + 200, NULL));
  mq_close(q);
  mq_unlink("/ttq-kernel");
  aio_context_t aio = 0;
  S(io_setup, 4, &aio);  // where there is none, the calls fail
  Begin("io_submit");
  struct iocb* one = memset(B + 4000, 0, sizeof(struct iocb));
  one->aio_lio_opcode = IOCB_CMD_PREAD;
  one->aio_fildes = (uint32_t)g_file;
  one->aio_buf = (uint64_t)(B + 1);
  one->aio_nbytes = 13;
  struct iocb* list[] = {one};
  End(S(io_submit, aio, 1L, list));
  T("io_getevents", S(io_getevents, aio, 1L, 3L, B + 8, NULL));
  T("io_getevents, nothing", S(io_getevents, aio, 0L, 3L, B + 8, &(struct timespec){0, 0}));
  S(io_destroy, aio);
}

static void* Sleep(void* address) {
  (void)address;
  pause();
  return NULL;
}

static void Process(void) {
  T("getrusage", S(getrusage, RUSAGE_SELF, B + 8));
  T("getrlimit", S(getrlimit, RLIMIT_STACK, B + 8));
  T("prlimit64", S(prlimit64, 0, RLIMIT_CORE, NULL, B + 8));
  T("sysinfo", S(sysinfo, B + 8));
  T("uname", S(uname, B + 1));
  T("uname, half outside", S(uname, E - 100));
  T("times", S(times, B + 8));
  T("time", S(time, B + 8));
  T("gettimeofday", S(gettimeofday, B + 8, B + 100));
  T("clock_gettime", S(clock_gettime, CLOCK_THREAD_CPUTIME_ID, B + 8));
  T("clock_gettime, none", S(clock_gettime, 77, B + 8));
  T("clock_getres", S(clock_getres, CLOCK_MONOTONIC, B + 8));
  T("adjtimex", (memset(B + 8, 0, sizeof(struct timex)), S(adjtimex, B + 8)));
  T("clock_adjtime",
    (memset(B + 8, 0, sizeof(struct timex)), S(clock_adjtime, CLOCK_REALTIME, B + 8)));
  INTERRUPTED("nanosleep", S(nanosleep, &(struct timespec){9, 0}, B + 8));
  T("nanosleep, done", S(nanosleep, &(struct timespec){0, 9}, B + 8));
  INTERRUPTED("clock_nanosleep",
              S(clock_nanosleep, CLOCK_MONOTONIC, 0, &(struct timespec){9, 0}, B + 8));
  T("sched_getaffinity", S(sched_getaffinity, 0, 128L, B + 8));
  T("sched_getaffinity 8", S(sched_getaffinity, 0, 8L, B + 8));
  T("sched_getaffinity 3", S(sched_getaffinity, 0, 3L, B + 8));
  T("sched_getparam", S(sched_getparam, 0, B + 8));
  T("sched_getattr", S(sched_getattr, 0, B + 8, 48, 0));
  T("sched_rr_get_interval", S(sched_rr_get_interval, 0, B + 8));
  T("getcpu", S(getcpu, B + 8, B + 16, NULL));
  T("get_mempolicy", S(get_mempolicy, B + 8, B + 16, 1024L, NULL, 0L));
  T("getgroups", getgroups(64, (gid_t*)(B + 8)));
  T("getgroups 0", getgroups(0, (gid_t*)(B + 8)));
  T("getresuid", getresuid((uid_t*)(B + 4), (uid_t*)(B + 12), (uid_t*)(B + 24)));
  T("getresgid", getresgid((uid_t*)(B + 4), (uid_t*)(B + 12), (uid_t*)(B + 24)));
  T("capget", (PUT(struct __user_cap_header_struct, B + 8, {_LINUX_CAPABILITY_VERSION_3, 0}),
               S(capget, B + 8, B + 64)));
  T("capget, which version",
    (PUT(struct __user_cap_header_struct, B + 8, {0, 0}), S(capget, B + 8, NULL)));
  T("capget 1", (PUT(struct __user_cap_header_struct, B + 8, {_LINUX_CAPABILITY_VERSION_1, 0}),
                 S(capget, B + 8, B + 64)));
  T("PR_GET_NAME", prctl(PR_GET_NAME, B + 1));
  T("PR_GET_PDEATHSIG", prctl(PR_GET_PDEATHSIG, B + 8));
  T("PR_GET_TSC", prctl(PR_GET_TSC, B + 8));
  T("PR_GET_UNALIGN", prctl(PR_GET_UNALIGN, B + 8));
  T("PR_GET_CHILD_SUBREAPER", prctl(PR_GET_CHILD_SUBREAPER, B + 8));
  T("PR_GET_TID_ADDRESS", prctl(40, B + 8));
  T("arch_prctl", S(arch_prctl, 0x1003 /* ARCH_GET_FS */, B + 8));
  T("arch_prctl gs", S(arch_prctl, 0x1004 /* ARCH_GET_GS */, B + 8));
  T("get_robust_list", S(get_robust_list, 0, B + 8, B + 16));
  T("getitimer", S(getitimer, ITIMER_VIRTUAL, B + 8));
  T("setitimer", S(setitimer, ITIMER_VIRTUAL, &(struct itimerval){{7, 0}, {8, 0}}, B + 8));
  T("setitimer, old", S(setitimer, ITIMER_VIRTUAL, &(struct itimerval){{0, 0}, {0, 0}}, B + 8));
  T("timer_create", (PUT(struct sigevent, B + 100, {.sigev_notify = SIGEV_NONE}),
                     S(timer_create, CLOCK_MONOTONIC, B + 100, B + 8)));
  int timer = *(int*)(B + 8);
  T("timer_settime", S(timer_settime, timer, 0, &(struct itimerspec){{5, 0}, {6, 0}}, B + 8));
  T("timer_settime, old", S(timer_settime, timer, 0, &(struct itimerspec){{7, 0}, {8, 0}}, B + 8));
  T("timer_gettime", S(timer_gettime, timer, B + 8));
  S(timer_delete, timer);
  T("rt_sigaction", S(rt_sigaction, SIGALRM, NULL, B + 8, 8L));
  T("sigaltstack", S(sigaltstack, NULL, B + 8));
  T("futex, WAKE_OP",
    (PUT(int, B + 8, 0), PUT(int, B + 12, 7),
     S(futex, B + 8, FUTEX_WAKE_OP, 1, 1L, B + 12, FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 0))));
  T("futex, LOCK_PI", (PUT(int, B + 8, 0), S(futex, B + 8, FUTEX_LOCK_PI, 0, NULL, NULL, 0)));
  T("futex, TRYLOCK_PI", (PUT(int, B + 8, 0), S(futex, B + 8, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0)));
  T("futex, UNLOCK_PI",
    (PUT(int, B + 8, (int)S(gettid)), S(futex, B + 8, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0)));
  T("mincore", S(mincore, kArena, 5L * kPage, B + 1));
  T("mincore, half outside", S(mincore, kArena, 5L * kPage, E - 2));
  T("process_vm_readv",
    S(process_vm_readv, getpid(), Vector(3, 9), 3L, &(struct iovec){g_path, 11}, 1L, 0L));
  T("process_vm_writev",
    S(process_vm_writev, getpid(), &(struct iovec){g_path, 11}, 1L, Vector(3, 9), 3L, 0L));
  T("move_pages", (PUT(void*, B + 8, kArena), S(move_pages, 0, 1L, B + 8, NULL, B + 64, 0)));
  T("keyctl", S(keyctl, 6 /* DESCRIBE */, -3, B + 1, 100L));
  T("kcmp", S(kcmp, getpid(), getpid(), 0, 0, 1));
  T("syslog", S(syslog, 3, B + 1, 50));
  T("getpriority", S(getpriority, 0, 0));
  T("modify_ldt", S(modify_ldt, 0, B + 8, 64L));
  T("ioprio_get", S(ioprio_get, 1, 0));
  T("membarrier", S(membarrier, 0, 0));
  T("close_range", S(close_range, 500, 600, 0));
  pid_t child = fork();
  if (child == 0) _exit(3);
  T("waitid", S(waitid, P_PID, child, B + 8, WEXITED | WNOWAIT, B + 300));
  T("waitid, ours", waitid(P_PID, (id_t)child, (siginfo_t*)(B + 8), WEXITED | WNOWAIT));
  T("wait4", S(wait4, child, B + 4, 0, B + 16));
  T("wait4, none", S(wait4, child, B + 4, 0, B + 16));
  child = fork();
  if (child == 0)
    for (;;) pause();
  T("waitid, nothing yet", S(waitid, P_PID, child, B + 8, WEXITED | WNOHANG, B + 300));
  T("wait4, nothing yet", S(wait4, child, B + 4, WNOHANG, B + 16));
  INTERRUPTED("wait4, interrupted", S(wait4, child, B + 4, 0, B + 16));
  int pidfd = (int)S(pidfd_open, child, 0);
  kill(child, SIGKILL);
  T("waitid, pidfd", S(waitid, 3 /* P_PIDFD */, pidfd, B + 8, WEXITED, NULL));
  close(pidfd);
  // Threads: what clone writes.
  Begin("clone");
  pthread_t thread;
  End(pthread_create(&thread, NULL, Sleep, B));
  T("clone, PARENT_SETTID and CHILD_SETTID",
    S(clone, CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD, NULL, B + 8, B + 16, NULL));
  if (g_result[g_count - 1] == 0) _exit(0);
  waitpid((pid_t)g_result[g_count - 1], NULL, 0);
  T("clone, PIDFD", S(clone, 0x1000 /* CLONE_PIDFD */ | SIGCHLD, NULL, B + 8, NULL, NULL));
  if (g_result[g_count - 1] == 0) _exit(0);
  if (g_result[g_count - 1] > 0) waitpid((pid_t)g_result[g_count - 1], NULL, 0);
}

static void SystemV(void) {
  // The remainder of an identifier is its index, by which *_STAT finds it: index 0 may be
  // anybody's.
  enum { kMaxIds = 32768 };
  T("msgget", msgget(IPC_PRIVATE, 0600));
  int q = (int)g_result[g_count - 1];
  T("msgctl", msgctl(q, IPC_STAT, (void*)(B + 8)));
  T("msgctl, IPC_INFO", msgctl(q, IPC_INFO, (void*)(B + 8)));
  T("msgctl, MSG_INFO", msgctl(q, MSG_INFO, (void*)(B + 8)));
  T("msgctl, MSG_STAT", msgctl(q % kMaxIds, MSG_STAT, (void*)(B + 8)));
  struct {
    long type;
    char text[20];
  } m = {3, "nineteen characters"};
  for (int i = 0; i < 3; ++i) msgsnd(q, &m, 19, 0);
  T("msgrcv", msgrcv(q, B + 8, 100, 0, 0));
  T("msgrcv, too small", msgrcv(q, B + 8, 5, 0, 0));
  T("msgrcv, cut off", msgrcv(q, B + 8, 5, 0, MSG_NOERROR));
  T("msgrcv, half outside", msgrcv(q, E - 14, 100, 0, 0));
  T("msgrcv, nothing", msgrcv(q, B + 8, 100, 0, IPC_NOWAIT));
  msgctl(q, IPC_RMID, NULL);
  int s = semget(IPC_PRIVATE, 3, 0600);
  semctl(s, 1, SETVAL, 7);
  T("semctl, IPC_STAT", semctl(s, 0, IPC_STAT, B + 8));
  T("semctl, GETALL", semctl(s, 0, GETALL, B + 2));
  T("semctl, IPC_INFO", semctl(s, 0, IPC_INFO, B + 8));
  T("semctl, SEM_INFO", semctl(s, 0, SEM_INFO, B + 8));
  T("semctl, SEM_STAT", semctl(s % kMaxIds, 0, SEM_STAT, B + 8));
  T("semtimedop",
    semtimedop(s, PUT(struct sembuf, B + 8, {0, -1, 0}), 1, PUT(struct timespec, B + 64, {0, 9})));
  semctl(s, 0, IPC_RMID);
  int h = shmget(IPC_PRIVATE, 4096, 0600);
  T("shmctl, IPC_STAT", shmctl(h, IPC_STAT, (void*)(B + 8)));
  T("shmctl, IPC_INFO", shmctl(h, IPC_INFO, (void*)(B + 8)));
  T("shmctl, SHM_INFO", shmctl(h, SHM_INFO, (void*)(B + 8)));
  T("shmctl, SHM_STAT", shmctl(h % kMaxIds, SHM_STAT, (void*)(B + 8)));
  shmctl(h, IPC_RMID, NULL);
}

static void* BeBusy(void* nothing) {
  for (volatile long i = 0;; ++i) {
  }
  return nothing;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (argc > 2) g_poison = atoi(argv[2]);
  if (argc > 3) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t busy;
    pthread_create(&busy, NULL, BeBusy, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  struct sigaction action = {.sa_handler = OnSignal};
  sigaction(SIGALRM, &action, NULL);
  for (int i = 0; i < kMaxCount; ++i) {
    if (mmap(kArena + (long)kStride * i, kSlice, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
      return 3;
  }
  g_file = mkstemp(g_path);
  g_dir = open("/usr", O_RDONLY | O_DIRECTORY);
  if (pipe(g_pipe) != 0) return 4;
  // Out of the way of the small numbers.
  g_pipe[0] = fcntl(g_pipe[0], F_DUPFD, 120), g_pipe[1] = fcntl(g_pipe[1], F_DUPFD, 120);
  for (int i = 0; i < 300; ++i)
    if (write(g_file, "The quick brown fox\n", 20) != 20) return 5;
  Waiting();
  Reading();
  Status();
  Control();
  Sockets();
  Descriptors();
  Process();
  SystemV();
  unlink(g_path);
  int out = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (int i = 0; i < g_count; ++i) {
    printf("%p %d %ld %s\n", (void*)(kArena + (long)kStride * i), kSlice, g_result[i], g_name[i]);
    if (write(out, kArena + (long)kStride * i, kSlice) != kSlice) return 6;
  }
  fflush(stdout);
  _exit(0);
}
