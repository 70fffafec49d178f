// SPDX-License-Identifier: MIT

#include "mcp/protocol.h"

#include <algorithm>
#include <utility>

#include "base/version.h"
#include "fmt/core.h"
#include "mcp/definitions.h"
#include "mcp/text.h"

namespace ttq::mcp {
namespace {

using Json = nlohmann::ordered_json;

enum Code {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
  kInternalError = -32603,
  kUnsupportedProtocolVersion = -32022,
};

// The newest first. What is sent is the same in all of these.
constexpr const char* kLegacyRevisions[] = {"2025-11-25", "2025-06-18", "2024-11-05"};
constexpr const char* kMetaRevision = "io.modelcontextprotocol/protocolVersion";
constexpr const char* kMetaCapabilities = "io.modelcontextprotocol/clientCapabilities";
// How long what the server says of itself holds: as long as it runs.
constexpr int kFreshMs = 3'600'000;

Json ServerInfo() { return {{"name", "ttq"}, {"version", std::string(kVersion)}}; }

Json SupportedRevisions() { return Json::array({kModernRevision, kLegacyRevisions[0]}); }

bool IsLegacy(const std::string& revision) {
  return std::any_of(std::begin(kLegacyRevisions), std::end(kLegacyRevisions),
                     [&](const char* known) { return revision == known; });
}

// `id` null: the request's could not be read.
std::string Error(const Json& id, int code, std::string_view message, const Json& data = nullptr) {
  Json error = {{"code", code}, {"message", std::string(message)}};
  if (!data.is_null()) error["data"] = data;
  Json reply = {{"jsonrpc", "2.0"}};
  if (!id.is_null()) reply["id"] = id;
  reply["error"] = std::move(error);
  return Dump(reply);
}

std::string Result(const Message& message, Json result) {
  if (message.modern) {
    result["resultType"] = "complete";
    result["_meta"] = {{"io.modelcontextprotocol/serverInfo", ServerInfo()}};
  }
  return Dump({{"jsonrpc", "2.0"}, {"id", message.id}, {"result", std::move(result)}});
}

Message Reply(std::string text) {
  Message message;
  message.kind = Message::Kind::kReply;
  message.reply = std::move(text);
  return message;
}

bool IsId(const Json& id) { return id.is_string() || id.is_number_integer(); }

// The error of a request whose `_meta` is not as the revision wants it; "" for one that is, or that
// has none. Sets `modern`.
std::string CheckMeta(const Json& params, Message* message) {
  const auto meta = params.find("_meta");
  if (meta == params.end()) return "";
  if (!meta->is_object()) return Error(message->id, kInvalidParams, "_meta must be an object");
  const auto revision = meta->find(kMetaRevision);
  if (revision == meta->end()) {
    if (meta->find(kMetaCapabilities) == meta->end()) return "";  // one of before
    return Error(message->id, kInvalidParams, fmt::format("_meta lacks {}", kMetaRevision));
  }
  if (!revision->is_string()) {
    return Error(message->id, kInvalidParams, fmt::format("{} must be a string", kMetaRevision));
  }
  const std::string& name = revision->get_ref<const std::string&>();
  if (IsLegacy(name)) return "";
  if (name != kModernRevision) {
    return Error(message->id, kUnsupportedProtocolVersion, "Unsupported protocol version",
                 {{"supported", SupportedRevisions()}, {"requested", name.substr(0, 100)}});
  }
  const auto capabilities = meta->find(kMetaCapabilities);
  if (capabilities == meta->end() || !capabilities->is_object()) {
    return Error(message->id, kInvalidParams,
                 fmt::format("_meta must have {}, an object", kMetaCapabilities));
  }
  message->modern = true;
  return "";
}

std::string Initialize(const Message& message, const Json& params) {
  const auto wanted = params.find("protocolVersion");
  if (wanted == params.end() || !wanted->is_string()) {
    return Error(message.id, kInvalidParams, "protocolVersion must be a string");
  }
  const std::string& name = wanted->get_ref<const std::string&>();
  return Result(message, {{"protocolVersion", IsLegacy(name) ? name : kLegacyRevisions[0]},
                          {"capabilities", {{"tools", Json::object()}}},
                          {"serverInfo", ServerInfo()},
                          {"instructions", std::string(kInstructions)}});
}

std::string Discover(const Message& message) {
  if (!message.modern) {
    return Error(message.id, kInvalidParams,
                 fmt::format("_meta must have {} and {}", kMetaRevision, kMetaCapabilities));
  }
  return Result(message, {{"supportedVersions", SupportedRevisions()},
                          {"capabilities", {{"tools", Json::object()}}},
                          {"instructions", std::string(kInstructions)},
                          {"ttlMs", kFreshMs},
                          {"cacheScope", "public"}});
}

std::string ListTools(const Message& message, const Json& params, const Tools& tools) {
  // All of them are on the first page.
  if (const auto cursor = params.find("cursor"); cursor != params.end()) {
    return Error(message.id, kInvalidParams, "there is no such cursor");
  }
  Json result = {{"tools", tools.Definitions()}};
  if (message.modern) {
    result["ttlMs"] = kFreshMs;
    result["cacheScope"] = "public";
  }
  return Result(message, std::move(result));
}

Message CallTool(Message message, const Json& params, const Tools& tools) {
  const auto name = params.find("name");
  if (name == params.end() || !name->is_string()) {
    return Reply(Error(message.id, kInvalidParams, "name must be a string"));
  }
  message.tool = name->get<std::string>();
  std::string known;
  if (!tools.Has(message.tool, &known)) {
    return Reply(
        Error(message.id, kInvalidParams,
              fmt::format("Unknown tool: {}; there are {}", Quoted(message.tool, 60), known)));
  }
  message.arguments = Json::object();
  if (const auto arguments = params.find("arguments"); arguments != params.end()) {
    if (!arguments->is_object()) {
      return Reply(Error(message.id, kInvalidParams, "arguments must be an object"));
    }
    message.arguments = *arguments;
  }
  message.kind = Message::Kind::kCall;
  return message;
}

Message Notification(const std::string& method, const Json& params) {
  Message message;
  if (method != "notifications/cancelled" || !params.is_object()) return message;
  const auto id = params.find("requestId");
  if (id == params.end() || !IsId(*id)) return message;
  message.kind = Message::Kind::kCancel;
  message.id = *id;
  return message;
}

}  // namespace

Message ReadMessage(std::string_view line, const Tools& tools) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Reply(Error(nullptr, kParseError, "Parse error: not JSON"));
  if (!json.is_object()) {
    return Reply(Error(nullptr, kInvalidRequest,
                       json.is_array() ? "Invalid request: batches are not part of the protocol"
                                       : "Invalid request: not an object"));
  }
  Message message;
  const auto id = json.find("id");
  if (id != json.end() && IsId(*id)) message.id = *id;
  const auto version = json.find("jsonrpc");
  if (version == json.end() || *version != "2.0") {
    return Reply(Error(message.id, kInvalidRequest, "Invalid request: jsonrpc must be \"2.0\""));
  }
  const auto method_at = json.find("method");
  if (method_at == json.end() && (json.contains("result") || json.contains("error"))) return {};
  if (method_at == json.end() || !method_at->is_string()) {
    return Reply(Error(message.id, kInvalidRequest, "Invalid request: method must be a string"));
  }
  const std::string& method = method_at->get_ref<const std::string&>();
  static const Json* const kNone = new Json(Json::object());
  const auto params_at = json.find("params");
  const Json& params = params_at == json.end() ? *kNone : *params_at;
  if (id == json.end()) return Notification(method, params);
  if (message.id.is_null()) {
    return Reply(
        Error(nullptr, kInvalidRequest, "Invalid request: id must be a string or an integer"));
  }
  if (!params.is_object()) {
    return Reply(Error(message.id, kInvalidParams, "params must be an object"));
  }
  if (method == "initialize") return Reply(Initialize(message, params));
  if (std::string error = CheckMeta(params, &message); !error.empty())
    return Reply(std::move(error));
  if (method == "server/discover") return Reply(Discover(message));
  if (method == "tools/list") return Reply(ListTools(message, params, tools));
  if (method == "tools/call") return CallTool(std::move(message), params, tools);
  // The newer revision has none.
  if (method == "ping" && !message.modern) return Reply(Result(message, Json::object()));
  return Reply(
      Error(message.id, kMethodNotFound, fmt::format("Method not found: {}", Quoted(method, 60))));
}

std::string ResultReply(const Message& call, const ToolResult& result) {
  Json reply = {{"content", Json::array({{{"type", "text"}, {"text", result.text}}})}};
  if (result.is_error) reply["isError"] = true;
  return Result(call, std::move(reply));
}

std::string InternalError(const Message& call, std::string_view message) {
  return Error(call.id, kInternalError, message);
}

std::string TooLongError(size_t most) {
  return Error(nullptr, kInvalidRequest,
               fmt::format("Invalid request: a line of more than {} bytes", most));
}

}  // namespace ttq::mcp
