// recipe_docs DOCS_FOLDER: regenerates the key reference in recipe.md, and recipe.schema.json, from the table
// of keys.
#include <iostream>

#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "recipe/yaml/reference.h"

int main(int argc, char** argv) {
  using namespace echelon;
  if (argc != 2) {
    std::cerr << "usage: recipe_docs DOCS_FOLDER\n";
    return static_cast<int>(Code::kUsage);
  }
  try {
    const fs::Path folder = argv[1];
    const std::string document = fs::read_file(folder / "recipe.md", 1 << 20, Code::kEnvironment);
    fs::publish_file(folder / "recipe.md", recipe::with_reference(document), Code::kEnvironment);
    fs::publish_file(folder / "recipe.schema.json", recipe::json_schema(), Code::kEnvironment);
    return 0;
  } catch (const Error& error) {
    std::cerr << "recipe_docs: " << error.what() << '\n';
    return static_cast<int>(error.code());
  }
}
