/* planted.c - a library with what symbols.sh must find: writable data, local and global, and a
 * foreign name. */
int planted_name(void);

static int counter;

int planted_name(void)
{
    return ++counter;
}
