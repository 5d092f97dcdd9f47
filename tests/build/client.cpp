/* tests/build/client.cpp -- what a C++ program sees of an installed teaspan. */
#include <new>
#include <string_view>
#include <teaspan/teaspan.h>

struct Node {
    Node *next;
    int value;
};

int main()
{
    constexpr int nodes = 1000;
    Node *list = nullptr;
    for (int i = 0; i < nodes; i++)
        list = new (tea_alloc(sizeof(Node))) Node{list, i};
    tea_collect();
    int sum = 0;
    for (Node *n = list; n; n = n->next)
        sum += n->value;
    if (sum != nodes * (nodes - 1) / 2)
        return 1;
    return std::string_view(tea_version()) == TEA_VERSION_STRING ? 0 : 1;
}
