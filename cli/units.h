// SPDX-License-Identifier: MIT
//
// Amounts as people type them.

#ifndef TTQ_CLI_UNITS_H_
#define TTQ_CLI_UNITS_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace ttq {

// "500M", "2GB", "1.5 G", "4096": bytes. K, M, G and T are powers of 1000, as `ttq ls` prints them;
// Ki, Mi, Gi and Ti of 1024. nullopt: not understood, or above 2^63.
std::optional<uint64_t> ParseBytes(std::string_view text);

// "90s", "30m", "12h", "7d", "2w", and "90" for seconds. nullopt: not understood, or above 30
// years.
std::optional<double> ParseSeconds(std::string_view text);

}  // namespace ttq

#endif  // TTQ_CLI_UNITS_H_
