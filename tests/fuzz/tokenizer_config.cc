// tokenizer_config.json beside a good tokenizer.json.
#include "fuzz/fuzz.h"
#include "text/load.h"

HONE_FUZZ(tokenizer_config) {
  hone::text::Files files = hone::text::bytes_tokenizer_files();
  files[1].second = input;
  const auto tokenizer = hone::text::make_tokenizer(files, {}, "fuzz");
  tokenizer->decode(tokenizer->encode("a <|eos|> b").ids);
}
