// Uses the torch-free half of an installed hone: the byte tokenizer, and the registry of data sources.
#include <hone/registry.h>
#include <hone/text.h>

#include <cstdio>

int main() {
  const auto tokenizer = hone::load_tokenizer("bytes");
  const hone::Encoding encoding = tokenizer->encode("Hi!");
  const bool sources = !hone::registries().sources.names().empty();
  const bool models = !hone::registries().models.names().empty();  // of the torch half, which is not linked
  std::printf("%s: %zu ids\n", tokenizer->decode(encoding.ids).c_str(), encoding.ids.size());
  return encoding.ids.size() == 3 && sources && !models ? 0 : 1;
}
