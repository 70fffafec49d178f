// SPDX-License-Identifier: MIT
//
// One thread unloads what another still works with.

#include <atomic>
#include <thread>
#include <vector>

struct Model {
  std::vector<double> weights;
};

static Model* model;
static std::atomic<int> rounds;

__attribute__((noinline)) static double Predict() { return model->weights[3]; }

__attribute__((noinline)) static void Unload() {
  Model* const old = model;
  model = nullptr;
  delete old;
}

int main() {
  model = new Model{{1, 2, 3, 4}};
  double sum = 0;
  std::thread worker([&] {
    for (;;) {
      sum += Predict();
      ++rounds;
    }
  });
  std::thread watchdog([] {
    while (rounds < 100) std::this_thread::yield();
    Unload();
  });
  watchdog.join();
  worker.join();
  return sum > 0;
}
