// The prompt of two texts that both begin with it.
#include "data/shared_prompt.h"

#include <fmt/format.h>

#include <algorithm>

#include "hone/error.h"

namespace hone::data {
namespace {

constexpr std::string_view kHuman = "\n\nHuman:", kAssistant = "\n\nAssistant:";

bool is_transcript(std::string_view text) { return text.starts_with(kHuman) || text.starts_with(kHuman.substr(2)); }

std::size_t shared_bytes(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

std::size_t prompt_of_transcripts(std::string_view chosen, std::string_view rejected, std::string_view shared,
                                  const Place& place) {
  const std::size_t at = shared.rfind(kAssistant);
  if (at == std::string_view::npos)
    throw Error(ErrorKind::data, place.text() + ": chosen and rejected share no turn of an assistant to answer in")
        .hint("write prompt, chosen and rejected as fields of their own");
  const std::size_t prompt = at + kAssistant.size();
  for (const auto& [side, text] : {std::pair("chosen", chosen), std::pair("rejected", rejected)})
    if (text.substr(prompt).find(kHuman) != std::string_view::npos)
      throw Error(ErrorKind::data, fmt::format("{}: {}: goes on with a human's turn behind the first one that differs; "
                                               "expected a pair that differs in its last turn",
                                               place.text(), side))
          .hint("such a pair would teach the human's words, too: leave it out, or write it as messages");
  return prompt;
}

}  // namespace

std::size_t shared_prompt(std::string_view chosen, std::string_view rejected, const Place& place) {
  const std::size_t same = shared_bytes(chosen, rejected);
  const std::string_view shared = chosen.substr(0, same);
  if (is_transcript(chosen) && is_transcript(rejected)) return prompt_of_transcripts(chosen, rejected, shared, place);
  if (same == chosen.size() || same == rejected.size())
    throw Error(ErrorKind::data, fmt::format("{}: {} is the beginning of {}: it cannot be told where their prompt ends",
                                             place.text(), same == chosen.size() ? "chosen" : "rejected",
                                             same == chosen.size() ? "rejected" : "chosen"))
        .hint("give the prompt in a field of its own");
  const std::size_t blank = shared.find_last_of(" \t\n\r");
  if (blank != std::string_view::npos) return blank;
  std::size_t end = same;  // no words: whole characters
  while (end > 0 && (static_cast<unsigned char>(chosen[end]) & 0xC0) == 0x80) --end;
  return end;
}

}  // namespace hone::data
