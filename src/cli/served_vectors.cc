#include "cli/served_vectors.h"

#include <fmt/format.h>

namespace hone::cli {

serve::Embeds served_vectors(const Embedder& embedder, serve::FrontOptions front, std::int64_t texts,
                             std::int64_t queue) {
  serve::Embeds embeds;
  front.max_length = embedder.max_length();
  embeds.front = std::move(front);
  embeds.width = embedder.width(), embeds.vocab_size = embedder.model().vocab_size();
  embeds.texts = texts, embeds.queue = queue;
  embeds.tokenizer = embedder.shared_tokenizer();
  embeds.prompt = [&embedder](const std::string& name) { return embedder.prompt(name, "prompt_name"); };
  embeds.tokens = [&embedder](const std::string& text, const std::string& prompt, bool may_cut,
                              const std::string& where) {
    Embedder::Tokens tokens = embedder.read(text, prompt, where);
    if (tokens.is_cut && !may_cut)
      throw serve::Refused(400,
                           fmt::format("{}: more than {} tokens; truncate_prompt_tokens: -1 cuts its end", where,
                                       embedder.max_length()),
                           "input", "context_length_exceeded");
    return std::move(tokens.ids);
  };
  embeds.vectors = [&embedder](const std::vector<serve::Ids>& texts, std::optional<std::int64_t> dims) {
    return embedder.vectors(texts, dims);
  };
  return embeds;
}

}  // namespace hone::cli
