// SPDX-License-Identifier: MIT
//
// hangs_cc HOW: threads that wait for each other by what C++ has for it. Says "ready" when they do.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <future>
#include <latch>
#include <map>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

std::mutex first, second;
std::recursive_mutex again;
std::timed_mutex timed;
std::shared_mutex table;
std::condition_variable never;
std::counting_semaphore<8> empty(0);
std::latch gate(2);
std::promise<int> promise;
std::atomic<int> word{0};
std::once_flag once;

struct Account {
  std::mutex guard;
  int balance = 0;
};

static void Stay() { std::this_thread::sleep_for(1000s); }

static void Transfer(std::mutex& from, std::mutex& to) {
  std::lock_guard hold(from);
  std::this_thread::sleep_for(200ms);
  std::lock_guard wait(to);
}

int main(int, char** argv) {
  static Account one, two;
  // What the threads do, each 100 ms after the one before.
  const std::map<std::string, std::vector<std::function<void()>>> ways = {
      {"order", {[] { Transfer(first, second); }, [] { Transfer(second, first); }}},
      {"members", {[] { Transfer(one.guard, two.guard); }, [] { Transfer(two.guard, one.guard); }}},
      {"lost", {[] {
         never.notify_one();
         std::unique_lock lock(first);
         never.wait(lock, [] { return word != 0; });
       }}},
      {"future", {[] { promise.get_future().get(); }}},
      {"reader", {[] { table.lock_shared(), Stay(); }, [] { table.lock(); }}},
      {"writer", {[] { table.lock(), Stay(); }, [] { table.lock_shared(); }, [] { table.lock(); }}},
      {"semaphore", {[] { empty.acquire(); }}},
      {"latch", {[] { gate.arrive_and_wait(); }}},
      {"atomic", {[] { word.wait(0); }}},
      {"recursive", {[] { again.lock(), again.lock(), Stay(); }, [] { again.lock(); }}},
      {"timed", {[] { timed.lock(), Stay(); }, [] { (void)timed.try_lock_for(1000s); }}},
      {"once", {[] { std::call_once(once, Stay); }, [] { std::call_once(once, Stay); }}},
  };
  std::vector<std::thread> threads;
  for (const auto& work : ways.at(argv[1])) {
    threads.emplace_back(work);
    std::this_thread::sleep_for(100ms);
  }
  std::this_thread::sleep_for(300ms);
  std::puts("ready");
  std::fflush(stdout);
  for (std::thread& thread : threads) thread.join();
}
