// SPDX-License-Identifier: MIT
// The standard library's containers and algorithms.
#include <algorithm>
#include <deque>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

int main() {
  std::vector<int> v(20);
  unsigned seed = 3;
  for (int& x : v) x = static_cast<int>((seed = seed * 1664525u + 1013904223u) >> 22);
  std::vector<int> w = v;
  std::sort(v.begin(), v.end());
  std::stable_sort(w.begin(), w.end(), std::greater<int>());
  std::map<std::string, int> names;
  std::unordered_map<int, std::string> numbers;
  for (int x : v) {
    names["name " + std::to_string(x % 7)] += x;
    numbers[x] += static_cast<char>('a' + x % 26);
  }
  std::set<int> odd;
  std::copy_if(v.begin(), v.end(), std::inserter(odd, odd.end()),
               [](int x) { return x % 2 != 0 && x > 100; });
  std::priority_queue<int> queue(v.begin(), v.end());
  std::deque<long> deque;
  std::list<std::shared_ptr<std::string>> list;
  for (int i = 0; i < 12 && !queue.empty(); ++i, queue.pop()) {
    if (i % 3 == 0)
      deque.push_front(queue.top());
    else
      deque.push_back(-queue.top());
    list.push_back(std::make_shared<std::string>(static_cast<size_t>(i), 'x'));
  }
  list.remove_if([](const auto& s) { return s->size() > 3 && s->size() < 9; });
  long sum = std::accumulate(deque.begin(), deque.end(), 0L);
  for (const auto& [name, value] : names) sum += static_cast<long>(name.size()) * value;
  for (int x = 0; x < 1024; x += 97) {
    sum += std::binary_search(v.begin(), v.end(), x) || numbers.count(x) != 0;
    sum += std::lower_bound(v.begin(), v.end(), x) - v.begin();
  }
  std::cout << sum << ' ' << list.size() << ' ' << odd.size() << '\n';
}
