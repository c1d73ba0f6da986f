// A SentencePiece model file as it was read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hone::text {

struct SpmPiece {
  enum Type { kNormal = 1, kUnknown = 2, kControl = 3, kUser = 4, kUnused = 5, kByte = 6 };
  std::string_view text;
  float score = 0;
  int type = kNormal;
};

struct Spm {
  enum Kind { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };
  std::vector<SpmPiece> pieces;
  std::uint64_t kind = kUnigram;
  bool suffix = false, byte_fallback = false, dummy_prefix = true, squeezes = true, escapes = true;
  std::string_view charsmap;
  std::int32_t unk_id = -1;
  std::string unk, bos = "<s>", eos = "</s>", pad = "<pad>";
};

// Throws Error(config), which begins with `where`, for damaged files and for models that no tokenizer.json can equal.
Spm read_spm(std::string_view bytes, const std::string& where);

// What the model's character map makes of texts.
std::vector<std::string> mapped(const Spm& spm, const std::vector<std::string_view>& texts, const std::string& where);

}  // namespace hone::text
